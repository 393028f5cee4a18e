//! Libraries: code that is linked into a domain while the domain lives (Wahbe et al. section 3,
//! dynamic linking).
//!
//! A library is verified and laid out like a domain's objects, placed at random free pages of the
//! live window, sealed, and its text verified where it runs. Only then do slots and names lead to
//! it. The domain runs no code meanwhile, because the host holds the world.
//!
//! # Why a stale address is harmless
//!
//! After [`crate::Manage::unlink`] the text is unmapped, and another library may get its pages. So
//! no address of the old text may be used again:
//!
//! - Return addresses lie on the control stack and in the places of fibers, and nowhere else. A
//!   library with one of them is not unlinked.
//! - Direct branches into it are those of libraries that refer to its symbols. It is not unlinked
//!   before them. The domain's own text was sealed before.
//! - Indirect branches use slots. Its slots lead to the trap from then on. A slot never holds
//!   another function in the domain's life: it is used again by the same library only, or after
//!   [`crate::World::recycle_slots`]. A stale function pointer so ends in the trap.
//! - Bindings that lead into it are undone. Functions that the host looked up ([`crate::TypedFn`])
//!   compare a number of the library first, which changes.

pub(crate) mod error;
pub(crate) mod handle;
pub(crate) mod link;
pub(crate) mod open;
pub(crate) mod record;
pub(crate) mod slots;
pub(crate) mod unlink;
pub(crate) mod words;
