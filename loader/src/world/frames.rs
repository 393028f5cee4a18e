//! The calls in progress: the frames on the control stack, as a host function finds them.

use crate::gate::frame::Active;
use crate::gate::ids::DomainId;
use crate::gate::records::Binding;
use crate::world::inner::Inner;

/// The domains and bindings that calls in progress return to or through.
#[derive(Debug, Default)]
pub(crate) struct Activity {
    /// Domains with a frame that is returned to.
    pub domains: Vec<DomainId>,
    /// Bindings that are read again at a return.
    pub bindings: Vec<*const Binding>,
}

impl Activity {
    /// Collects all frames of a world. There are none if no call is in progress.
    pub(crate) fn of(inner: &Inner) -> Self {
        let mut all = Self::default();
        // SAFETY: a reference to the record exists only while the host runs, on the thread that
        // holds the world. A depth says that a host function runs.
        unsafe {
            let context = &*inner.gates.control.context();
            let mut part = (context.depth != 0).then(|| Active::calling_host(context));
            while let Some(active) = part {
                all.domains.push((*active.domain).index);
                all.bindings.push(active.left_by);
                part = active.outer(context);
            }
        }
        all
    }
}
