//! The loader's own functions for domains. They are granted like functions of the host, by these
//! names.
//!
//! | name | type | what it does |
//! | --- | --- | --- |
//! | `__sfi_connect` | `void *(const char *entry)` | connects to an entry point, gives a function pointer or NULL |
//! | `__sfi_disconnect` | `int (void *function)` | gives the gateway behind such a pointer back |
//! | `__sfi_register` | `int (const char *name, void *function, const char *signature)` | registers a function of the caller as `domain.name` |
//! | `__sfi_unregister` | `int (const char *name)` | takes it back |
//! | `__sfi_region` | `void *(const char *region, uint64_t *length)` | where the caller sees a shared region, or NULL |
//! | `__sfi_make_visible` | `int (const char *domain, const char *region, int write)` | root domains: shows a region to a domain |
//! | `__sfi_make_invisible` | `int (const char *domain, const char *region)` | root domains: takes it away |
//!
//! Those that return `int` return 0 or -1. A client cannot tell an entry point that does not exist
//! from one that it may not connect to.

use crate::gate::ids::BindingId;
use crate::gate::records::{Binding, Status};
use crate::spec::Access;
use crate::world::bindings::manager::{By, Registered};
use crate::world::bindings::record::To;
use crate::world::calls::host_call::{HostCall, HostFn};
use crate::world::error::HostError;
use crate::world::inner::Inner;
use crate::world::lanes::take::mark_of_gate;

/// Name of the host function that restarts domains. No symbol has it.
pub(crate) const REVIVE: &str = "(revive)";
/// Name of the host function by which domains register entry points.
pub(crate) const REGISTER: &str = "__sfi_register";
/// Longest name that a domain may pass.
const NAME_LIMIT: usize = 256;
/// Longest signature.
const SIGNATURE_LIMIT: usize = 1024;

/// Returns all host functions of the loader.
pub(crate) fn all() -> Vec<(&'static str, HostFn)> {
    vec![
        ("__sfi_connect", Box::new(connect)),
        ("__sfi_disconnect", Box::new(disconnect)),
        (REGISTER, Box::new(register)),
        ("__sfi_unregister", Box::new(unregister)),
        ("__sfi_region", Box::new(region)),
        ("__sfi_make_visible", Box::new(make_visible)),
        ("__sfi_make_invisible", Box::new(make_invisible)),
        (REVIVE, Box::new(revive)),
    ]
}

fn name(cx: &HostCall<'_>, argument: usize) -> Result<String, HostError> {
    let bytes = cx.memory().read_c_string(cx.arg(argument), NAME_LIMIT)?;
    String::from_utf8(bytes).map_err(|_| HostError::new("a name is UTF-8"))
}

/// Refuses a call. The caller learns nothing else.
fn refused(cx: &mut HostCall<'_>, result: u64) -> Result<u64, HostError> {
    let caller = cx.caller_index();
    let state = cx.record().domains[caller].state;
    // SAFETY: the caller's state lives as long as the world.
    unsafe { Inner::set_error(state, Status::Unbound) };
    Ok(result)
}

fn connect(cx: &mut HostCall<'_>) -> Result<u64, HostError> {
    let client = cx.caller_index();
    let Ok(entry) = name(cx, 0) else { return refused(cx, 0) };
    let inner = cx.record();
    match inner.connect(client, None, &entry) {
        Ok(number) => Ok(inner.pointer(client, number)),
        Err(_) => refused(cx, 0),
    }
}

fn disconnect(cx: &mut HostCall<'_>) -> Result<u64, HostError> {
    let (client, pointer) = (cx.caller_index(), cx.arg(0));
    let inner = cx.record();
    let spare = |number: &BindingId| inner.manager.records[*number].as_ref().is_some_and(|record| !record.lent);
    let undone = inner.number(client, pointer).filter(spare).map(|number| inner.undo(number, false));
    if matches!(undone, Some(Ok(()))) { Ok(0) } else { refused(cx, u64::MAX) }
}

fn register(cx: &mut HostCall<'_>) -> Result<u64, HostError> {
    let domain = cx.caller_index();
    let signature = cx.memory().read_c_string(cx.arg(2), SIGNATURE_LIMIT).ok();
    let signature = signature.and_then(|text| String::from_utf8(text).ok()?.parse().ok());
    let (Ok(name), Some(signature)) = (name(cx, 0), signature) else { return refused(cx, u64::MAX) };
    let pointer = cx.arg(1);
    let inner = cx.record();
    let Some(offset) = inner.code_at(domain, pointer) else { return refused(cx, u64::MAX) };
    let to = To::Code { domain, offset };
    let entry = Registered { to, owner: Some(domain), signature: Some(signature), by: By::Domain };
    let done = inner.register(domain, &name, entry).and_then(|()| inner.connect_waiting(false));
    if done.is_ok() { Ok(0) } else { refused(cx, u64::MAX) }
}

fn unregister(cx: &mut HostCall<'_>) -> Result<u64, HostError> {
    let domain = cx.caller_index();
    let Ok(name) = name(cx, 0) else { return refused(cx, u64::MAX) };
    let inner = cx.record();
    let full = format!("{}.{name}", inner.domains[domain].name);
    // Entry points of the specification are the host's to take back.
    let own = inner.manager.entries.get(&full).is_some_and(|e| e.by == By::Domain && e.owner == Some(domain));
    if own && inner.unregister(&full).is_ok() { Ok(0) } else { refused(cx, u64::MAX) }
}

fn region(cx: &mut HostCall<'_>) -> Result<u64, HostError> {
    let (caller, length) = (cx.caller_index(), cx.arg(1));
    let Ok(region) = name(cx, 0) else { return refused(cx, 0) };
    let Some((at, bytes)) = cx.record().region_at(caller, &region) else { return refused(cx, 0) };
    if length != 0 {
        cx.write(length, &bytes.to_le_bytes())?;
    }
    Ok(at)
}

fn make_visible(cx: &mut HostCall<'_>) -> Result<u64, HostError> {
    let access = if cx.arg(2) as u32 != 0 { Access::ReadWrite } else { Access::Read };
    show(cx, Some(access))
}

fn make_invisible(cx: &mut HostCall<'_>) -> Result<u64, HostError> {
    show(cx, None)
}

fn show(cx: &mut HostCall<'_>, access: Option<Access>) -> Result<u64, HostError> {
    let caller = cx.caller_index();
    let (Ok(domain), Ok(region)) = (name(cx, 0), name(cx, 1)) else { return refused(cx, u64::MAX) };
    let inner = cx.record();
    let done = inner.domains[caller].spec.root && inner.make_visible(&domain, &region, access).is_ok();
    if done { Ok(0) } else { refused(cx, u64::MAX) }
}

/// Restarts a dead callee, or in a lane takes an E-stack of the callee. The gate between domains
/// (gate/domain.s, gate/lanes.s) calls this with the binding of a call. Returns [`Status::Ok`] if
/// the call can begin again, otherwise the status of the call.
fn revive(cx: &mut HostCall<'_>) -> Result<u64, HostError> {
    let binding = cx.arg(0) as *const Binding;
    // SAFETY: only the gate calls this, with one of the world's bindings; no import can name it. No
    // reference to the record is kept.
    unsafe {
        let callee = (*binding).callee;
        let index = (*callee).index;
        let mut held = cx.held();
        let revived = match held.lane {
            Some(_) => {
                let mark = mark_of_gate(&*held.gates.control.context());
                held.take(index, mark)
            }
            None => held.revive(index),
        };
        Ok(revived.err().unwrap_or(Status::Ok).into())
    }
}
