//! Who is in the middle of a call: the frames on the control stack, as a host function finds them.

use crate::gate::records::{Binding, DomainState};
use crate::world::Inner;

/// What calls in progress return to or through.
#[derive(Debug, Default)]
pub struct Activity {
    /// Indices of domains with a frame that is returned to.
    pub domains: Vec<usize>,
    /// Bindings that are read again at a return.
    pub bindings: Vec<*const Binding>,
}

impl Activity {
    /// All frames of a world. Nothing if no call is in progress.
    ///
    /// # Safety
    /// `inner` belongs to a world that this thread holds mutably, and the host runs.
    pub unsafe fn of(inner: *const Inner) -> Self {
        let mut all = Self::default();
        // SAFETY: see the function's contract. Frames are linked as gate/common.s describes; the outermost of a segment is an entry
        // from the host, whose binding continues at another place than those between domains.
        unsafe {
            let context = (*inner).control.context();
            if (*context).depth == 0 {
                return all;
            }
            let enter_failed = (*context).enter_failed;
            let (mut current, mut top) = ((*context).current, (*context).top);
            let (mut calling, mut outer) = ((*context).calling, (*context).outer);
            loop {
                all.bindings.push(calling);
                loop {
                    all.domains.push((*current).index as usize);
                    let frame = top as *const u64;
                    let binding = *frame as *const Binding;
                    if (*binding).failed == enter_failed {
                        break;
                    }
                    all.bindings.push(binding);
                    current = *frame.add(2) as *mut DomainState;
                    top = *frame.add(3);
                }
                let Some(segment) = outer.as_ref() else { return all };
                (current, top, calling, outer) = (segment.current, segment.top, segment.calling, segment.outer);
            }
        }
    }
}
