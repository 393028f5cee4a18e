//! The loader for hosts written in C: `libsfi`. `include/sfi.h` is its documentation. A test
//! compares the two.
//!
//! # Safety
//! All functions trust the host's pointers as `sfi.h` says. Null is an error. Any other pointer is
//! as the function asks: a handle that was not freed, text with a zero byte at its end, a buffer of
//! the given size. Use of a world by two threads at once is noticed and refused. Panics end at the
//! border. Buffers that cross to domains are only copied by address, so others may hold them and
//! write to them.
#![warn(unreachable_pub)]
#![allow(clippy::missing_safety_doc, reason = "the same for all functions: the crate's documentation and sfi.h")]
#![allow(non_camel_case_types, reason = "the names of C")]

mod border;
mod config;
mod control;
mod debug;
mod enter;
mod error;
mod fleet;
mod function;
mod holder;
mod host;
mod images;
mod instances;
mod lanes;
mod memory;
mod native;
mod prepared;
mod shape;
mod sharing;
mod user;
mod window;
mod world;

pub use config::*;
pub use control::*;
pub use debug::*;
pub use enter::sfi_world;
pub use error::*;
pub use fleet::*;
pub use function::*;
pub use host::*;
pub use images::*;
pub use instances::*;
pub use lanes::*;
pub use memory::*;
pub use native::*;
pub use prepared::*;
pub use window::*;
pub use world::*;
