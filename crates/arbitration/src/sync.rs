//! The parts of which the queues of waiting threads (`futex.rs`) are made. `tests/queues.rs`
//! replaces them.

pub(crate) use sfi_loader::{HostCall, Stopper};
pub(crate) use std::sync::atomic::{AtomicBool, Ordering};
pub(crate) use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
