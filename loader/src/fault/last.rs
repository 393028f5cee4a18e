//! The last fault of the process in words, at a fixed place, so that a core dump of the host says
//! which domain died: `strings core | grep '^sfi fault: '`.

use crate::fault::report::Fault;
use sfi_contract::text::clean;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU8, Ordering};

/// Bytes of the text, with the zero bytes before it and at its end. The one before it parts it from
/// what happens to lie there.
const ROOM: usize = 512;

static TEXT: [AtomicU8; ROOM] = [const { AtomicU8::new(0) }; ROOM];
/// Held while the text changes, so that it is that of one fault.
static CHANGES: Mutex<()> = Mutex::new(());

/// Notes a fault that is described. Its text has no address, because the places of domains are
/// secrets. It has no line, because that would take the time of reading debug information.
pub(crate) fn note(fault: &Fault) {
    let domain = clean(fault.domain.as_bytes());
    let function = fault.function.as_ref().map(|name| format!(" in `{}`", clean(name.as_bytes())));
    let text = format!("sfi fault: domain `{domain}`: {}{}", fault.kind, function.unwrap_or_default());
    let _changes = CHANGES.lock();
    let bytes = text.bytes().take(ROOM - 2).chain(std::iter::repeat(0));
    TEXT[1..].iter().zip(bytes).for_each(|(place, byte)| place.store(byte, Ordering::Relaxed));
}
