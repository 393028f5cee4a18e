//! Control stacks: the return addresses and saved registers of a world's calls, at a random place
//! outside every window.

use crate::gate::ids::{BindingId, Id};
use crate::gate::records::{
    BINDINGS_OFFSET, Binding, CONTROL_GUARD, CONTROL_ROOM, CONTROL_SIZE, Context, MAX_CONTROL_AREA,
};
use crate::vm::address::HostAddress;
use crate::vm::ledger;
use crate::vm::space::AddressSpace;
use crate::vm::window::{DRAWS, pages};
use rand_chacha::ChaCha20Rng;
use rustix::io::Errno;
use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect, munmap};
use sfi_contract::layout::PAGE_SIZE;
use std::ffi::c_void;
use std::ops::Range;
use std::ptr;

/// Mappings of a control stack: header, bindings, guard, stack area.
const CONTROL_MAPPINGS: u64 = 4;

/// A control stack: header page, bindings, guard, closed room for signal handlers, stack area.
#[derive(Debug)]
pub(crate) struct ControlStack {
    base: HostAddress,
    /// Bytes of mapped bindings, whole pages.
    bindings: u64,
    /// Bytes of the stack area, whole pages.
    area: u64,
}

impl ControlStack {
    /// Maps a control stack at a random place, with `area` bytes for return addresses and frames
    /// and without bindings.
    pub(crate) fn map(rng: &mut ChaCha20Rng, space: AddressSpace, area: u64) -> Result<Self, Errno> {
        assert!(area <= MAX_CONTROL_AREA, "specifications are checked first");
        ledger::account(CONTROL_MAPPINGS)?;
        let reserved = (0..DRAWS).find_map(|_| {
            let base = space.draw(rng, CONTROL_SIZE) * CONTROL_SIZE;
            ledger::reserve_at(base, CONTROL_SIZE).map(|free| free.then_some(base)).transpose()
        });
        let Some(Ok(base)) = reserved else {
            ledger::forget(CONTROL_MAPPINGS);
            return Err(reserved.and_then(Result::err).unwrap_or(Errno::NOMEM));
        };
        let stack = Self { base: HostAddress::new(base), bindings: 0, area: pages(area) };
        let flags = MapFlags::PRIVATE | MapFlags::FIXED | MapFlags::NORESERVE;
        let rw = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: both ranges lie inside the reservation made above.
        unsafe {
            mmap_anonymous(base as *mut c_void, PAGE_SIZE as usize, rw, flags)?;
            mmap_anonymous(stack.low() as *mut c_void, stack.area as usize, rw, flags)?;
        }
        Ok(stack)
    }

    /// Maps read-only zeroes with space for `count` bindings in all.
    pub(crate) fn reserve_bindings(&mut self, count: usize) -> Result<(), Errno> {
        let length = pages((count * size_of::<Binding>()) as u64);
        if BINDINGS_OFFSET + length + CONTROL_GUARD + CONTROL_ROOM + self.area > CONTROL_SIZE {
            return Err(Errno::TOOBIG);
        }
        if length > self.bindings {
            let flags = MapFlags::PRIVATE | MapFlags::FIXED | MapFlags::NORESERVE;
            let at = (self.base + BINDINGS_OFFSET + self.bindings).pointer();
            // SAFETY: the range lies inside this reservation, after the bindings and before the
            // guard, where nothing is mapped.
            unsafe { mmap_anonymous(at, (length - self.bindings) as usize, ProtFlags::READ, flags)? };
            self.bindings = length;
        }
        Ok(())
    }

    /// Returns the address of a binding.
    pub(crate) fn binding(&self, id: BindingId) -> *const Binding {
        let offset = (id.place() * size_of::<Binding>()) as u64;
        assert!(offset + size_of::<Binding>() as u64 <= self.bindings, "no such binding");
        (self.base + BINDINGS_OFFSET + offset).pointer()
    }

    /// Returns the number of a binding of this control stack.
    pub(crate) fn binding_id(&self, binding: *const Binding) -> BindingId {
        BindingId::of((HostAddress::new(binding as u64) - self.base - BINDINGS_OFFSET) as usize / size_of::<Binding>())
    }

    /// Writes bindings, which are writable only during this call. No gate runs, because the world's
    /// thread is here.
    pub(crate) fn write_bindings(&mut self, records: &[(BindingId, Binding)]) -> Result<(), Errno> {
        let (at, length) = ((self.base + BINDINGS_OFFSET).pointer(), self.bindings as usize);
        if records.is_empty() {
            return Ok(());
        }
        // SAFETY: the mapped bindings of this reservation; `binding` checks the number. Gates hold
        // no reference to them.
        unsafe {
            mprotect(at, length, MprotectFlags::READ | MprotectFlags::WRITE)?;
            for (id, record) in records {
                self.binding(*id).cast_mut().write(*record);
            }
            mprotect(at, length, MprotectFlags::READ)
        }
    }

    /// Returns the header.
    pub(crate) fn context(&self) -> *mut Context {
        self.base.pointer()
    }

    /// Returns the lowest address of the stack area.
    pub(crate) fn low(&self) -> u64 {
        self.high() - self.area
    }

    /// Returns the first address after the stack area.
    pub(crate) fn high(&self) -> u64 {
        (self.base + CONTROL_SIZE).number()
    }

    /// Returns the place where the outermost entry begins.
    #[inline]
    pub(crate) fn top_of(context: *const Context) -> u64 {
        context as u64 + CONTROL_SIZE - 64
    }

    /// Returns the stack area.
    pub(crate) fn area(context: &Context) -> Range<u64> {
        context.low..ptr::from_ref(context) as u64 + CONTROL_SIZE
    }

    /// Returns the handlers' room, which ends where the stack area begins.
    pub(crate) fn room(context: &Context) -> Range<u64> {
        let end = Self::area(context).start;
        end - CONTROL_ROOM..end
    }
}

impl Drop for ControlStack {
    fn drop(&mut self) {
        // SAFETY: the reservation belongs to this value alone, and no domain runs when it is
        // dropped. munmap fails only at the kernel's limit on mappings, when only the reservation
        // is mapped. It is lost then.
        let _ = unsafe { munmap(self.base.pointer(), CONTROL_SIZE as usize) };
        ledger::forget(CONTROL_MAPPINGS);
    }
}
