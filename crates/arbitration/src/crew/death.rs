//! The end of a domain with threads.

use crate::process::Exit;
use sfi_loader::CallError;
use std::any::Any;

/// The reason for which a domain with threads ended.
#[derive(Debug)]
pub enum Death {
    /// A thread asked for it, or a signal ended the domain.
    Exit(Exit),
    /// A further thread failed, for example by a fault.
    Failed(CallError),
    /// The host's code panicked on the thread of a further thread.
    Panicked(Box<dyn Any + Send>),
}
