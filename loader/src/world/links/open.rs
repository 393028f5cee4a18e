//! Libraries that a domain opens by name, as `dlopen` does. The specification grants them
//! ([`crate::DomainSpec::library`]).
//!
//! | name | type | purpose |
//! | --- | --- | --- |
//! | `__sfi_library_open` | `int (const char *name, int flags)` | links a granted library, gives its handle or -1; NULL means the domain itself |
//! | `__sfi_library_symbol` | `void *(int handle, const char *name)` | the address of a global symbol, or NULL |
//! | `__sfi_library_close` | `int (int handle)` | gives the handle up: 0 or -1 |
//!
//! A handle is a number that the host looks up, so a wrong one is an error and nothing else. A
//! library that is opened twice is linked once. It is unlinked when its last handle is given up, if
//! nothing needs it then. Otherwise it stays, as POSIX permits.

use crate::gate::ids::DomainId;
use crate::gate::records::Status;
use crate::link::symbols::Target;
use crate::spec::library::{CLOSE, Library, OPEN, SYMBOL};
use crate::world::calls::host::Host;
use crate::world::calls::host_call::HostCall;
use crate::world::error::HostError;
use crate::world::held::Held;
use crate::world::inner::Inner;
use crate::world::links::error::LibraryError;
use crate::world::links::handle::Linked;
use crate::world::links::record::Link;

/// The handle of the domain itself, and of all libraries that others see.
const ALL: u64 = 1;
/// The smallest handle of a library. The others mean a search.
const FIRST: u64 = 2;
/// The flag that shows a library's symbols to later libraries (`RTLD_GLOBAL`).
const GLOBAL: u64 = 0x100;
/// The flag that opens only a library that is linked (`RTLD_NOLOAD`).
const NO_LOAD: u64 = 4;
/// Longest name of a library or symbol.
const NAME_LIMIT: usize = 1024;

/// Returns the loader's functions for libraries. An initialiser may open another library, so they
/// can be called while they run.
pub(crate) fn all() -> [Host; 3] {
    let [open_name, symbol_name, close_name] = [OPEN, SYMBOL, CLOSE].map(str::to_owned);
    [Host::reentrant(open_name, open), Host::reentrant(symbol_name, symbol), Host::reentrant(close_name, close)]
}

/// Refuses a call. The caller learns nothing else.
fn refuse(cx: &mut HostCall<'_>, result: u64) -> Result<u64, HostError> {
    let caller = cx.caller_index();
    let state = cx.record().domains[caller].state;
    // SAFETY: the caller's state lives as long as the world.
    unsafe { Inner::set_error(state, Status::Unbound) };
    Ok(result)
}

fn name(cx: &HostCall<'_>, argument: usize) -> Option<String> {
    let bytes = cx.memory().read_c_string(cx.arg(argument), NAME_LIMIT).ok()?;
    String::from_utf8(bytes).ok()
}

fn open(cx: &mut HostCall<'_>) -> Result<u64, HostError> {
    let (caller, flags) = (cx.caller_index(), cx.arg(1));
    if cx.arg(0) == 0 {
        return Ok(ALL);
    }
    let handle = name(cx, 0).and_then(|name| cx.held().open(caller, &name, flags).ok());
    match handle {
        Some(handle) => Ok(handle),
        None => refuse(cx, u64::MAX),
    }
}

fn symbol(cx: &mut HostCall<'_>) -> Result<u64, HostError> {
    let (caller, handle) = (cx.caller_index(), cx.arg(0));
    let found = name(cx, 1).and_then(|name| cx.held().search(caller, handle, &name));
    match found {
        Some(address) => Ok(address),
        None => refuse(cx, 0),
    }
}

fn close(cx: &mut HostCall<'_>) -> Result<u64, HostError> {
    let (caller, handle) = (cx.caller_index(), cx.arg(0));
    match cx.held().close(caller, handle) {
        true => Ok(0),
        false => refuse(cx, u64::MAX),
    }
}

impl Held<'_> {
    /// Opens a library for a domain. Returns the handle.
    fn open(&mut self, index: DomainId, name: &str, flags: u64) -> Result<u64, LibraryError> {
        let spec = std::sync::Arc::clone(&self.domains[index].spec);
        let granted = spec.libraries.iter().find(|library| library.name == name).ok_or(LibraryError::Gone)?;
        if let Some(link) = self.opened(index, granted.id) {
            link.handles = link.handles.saturating_add(1);
            link.private &= flags & GLOBAL == 0;
            return Ok(FIRST + link.number);
        }
        if flags & NO_LOAD != 0 {
            return Err(LibraryError::Gone);
        }
        let library = Library { private: flags & GLOBAL == 0, ..granted.clone() };
        let linked = self.link(index, &library)?;
        if let Some(link) = self.link_mut(linked) {
            link.handles = 1;
            link.stays = link.at_exit;
        }
        Ok(FIRST + linked.number)
    }

    /// Finds a symbol. Returns its address in the domain's terms.
    fn search(&mut self, index: DomainId, handle: u64, name: &str) -> Option<u64> {
        match handle.checked_sub(FIRST) {
            Some(number) if self.by_handle(index, number).is_some() => {
                let linked = Linked { world: self.id, domain: index, number };
                self.address(linked, name).ok().map(|pointer| pointer.0)
            }
            // RTLD_DEFAULT is 0, RTLD_NEXT is -1, and neither says who asks.
            _ if handle <= ALL || handle == u64::MAX => self.search_all(index, name),
            _ => None,
        }
    }

    /// Gives a handle up. Says whether it was one. The host's own links stay, and so do libraries
    /// whose functions the libc may call at the end (`atexit`). All stay if the host was given an
    /// address of the domain's memory, which may be the library's.
    fn close(&mut self, index: DomainId, handle: u64) -> bool {
        let Some(number) = handle.checked_sub(FIRST) else { return handle == ALL };
        let viewed = self.domains[index].viewed.get();
        let Some(link) = self.by_handle(index, number) else { return false };
        link.handles -= 1;
        if link.handles == 0 && !link.stays && !viewed {
            // A library that something needs stays.
            let _ = self.unlink(Linked { world: self.id, domain: index, number });
        }
        true
    }
}

impl Inner {
    /// Returns the link of a granted library that the domain opened, also if it gave its handles
    /// up.
    fn opened(&mut self, index: DomainId, library: u64) -> Option<&mut Link> {
        let links = self.domains[index].links.as_mut()?;
        links.all.iter_mut().find(|link| link.library == library && !link.running)
    }

    /// Returns a link that the domain has a handle of.
    fn by_handle(&mut self, index: DomainId, number: u64) -> Option<&mut Link> {
        let links = self.domains[index].links.as_mut()?;
        links.all.iter_mut().find(|link| link.number == number && link.handles > 0)
    }

    /// Finds a symbol of the domain, or of the libraries that others see.
    fn search_all(&mut self, index: DomainId, name: &str) -> Option<u64> {
        let domain = &self.domains[index];
        let image = &domain.image;
        let function = image.functions_by_name.get(name).map(|offset| (*offset, true));
        let own = function.or_else(|| image.variables.get(name).map(|offset| (*offset, false)));
        let links = domain.links.as_ref();
        let found = match links.and_then(|links| links.symbol(name)).filter(|_| own.is_none()) {
            Some(Target::Outside { offset, code }) => Some((offset, code)),
            _ => own,
        };
        let (offset, code) = found?;
        let place = if code { self.pointer_to(index, offset).ok()? } else { offset };
        Some(self.domains[index].window.at(place).number())
    }
}
