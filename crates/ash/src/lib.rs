//! Safe message handlers: untrusted code that runs in the receive path (Wallach, Engler, Kaashoek:
//! application-specific safe handlers).
//!
//! An [`engine::Engine`] takes messages from a [`back::Backend`], finds the handler that declared
//! the message's filter, and runs it in its domain. The handler looks at the message where it
//! arrived, copies parts of it to where they belong, and commits or aborts. Frames that it sends
//! and wakes that it asks for happen at the commit only. A message that no handler took goes the
//! normal way, to the [`engine::Host`].
//!
//! | end of a handler | its state and segment | its frames and wakes | the message |
//! | --- | --- | --- | --- |
//! | commit | stay | happen | is taken |
//! | voluntary abort: any other result | stay; its own abort code mends them | are dropped | goes the normal way |
//! | involuntary abort: fault, time | are as before | are dropped | goes the normal way, the owner pays |
//!
//! ```
//! use sfi_ash::back::ring::ring;
//! use sfi_ash::engine::{DEFAULT_TICK, Engine, Host, Message};
//!
//! struct App;
//! impl Host for App {
//!     fn normal(&mut self, message: &Message<'_>) {
//!         println!("{} bytes: {:?}", message.bytes().len(), message.reason);
//!     }
//!     fn wake(&mut self, handler: &str, value: u32) {
//!         println!("{handler} says {value}");
//!     }
//! }
//!
//! let (mut injector, ring, _sent) = ring(64, 2048)?;
//! let mut engine = Engine::new(ring, DEFAULT_TICK, Default::default());
//! injector.inject(b"a frame without a handler").unwrap();
//! assert_eq!(engine.poll(&mut App)?, 1);
//! # Ok::<(), std::io::Error>(())
//! ```

#![warn(unreachable_pub)]
#![deny(unsafe_code)]

pub mod account;
pub mod back;
pub mod bpf;
mod call;
pub mod engine;
pub mod filter;
pub mod handler;
pub mod head;
pub mod manifest;
pub mod native;
pub mod packet;
mod sys;
pub mod tree;
mod trusted;
mod undo;
mod uring;
pub mod wire;
mod xsk;

pub use call::{MOST_SENDS, MOST_WAKES};
pub use undo::MOST_UNDO;

/// The header of handlers in C.
pub const HEADER: &str = include_str!("../include/ash.h");
