//! The loader for hosts written in C: `libsfi`. `include/sfi.h` is its documentation; a test holds
//! both against each other.
//!
//! # Safety
//! All functions trust the host's pointers as `sfi.h` says: null is an error, everything else is
//! what the function asks for, a handle that was not freed, text with a zero byte at its end, a
//! buffer of the size that is given. A world that is used twice at once is noticed and refused.
//! Panics end at the border. Buffers that cross to domains are only copied by address: others may
//! hold them, and write to them.
#![allow(clippy::missing_safety_doc, reason = "the same for all functions: the crate's documentation and sfi.h")]
#![allow(non_camel_case_types, reason = "the names of C")]

mod border;
mod config;
mod control;
mod enter;
mod error;
mod function;
mod host;
mod memory;
mod world;

pub use config::{
    sfi_config, sfi_config_free, sfi_config_function, sfi_config_limits, sfi_config_new, sfi_config_permission,
    sfi_config_permit, sfi_config_serve, sfi_host_fn, sfi_permission_fn, sfi_serve_fn, sfi_world_lend,
    sfi_world_take_back,
};
pub use control::*;
pub use enter::sfi_world;
pub use error::*;
pub use function::*;
pub use host::*;
pub use memory::*;
pub use world::*;
