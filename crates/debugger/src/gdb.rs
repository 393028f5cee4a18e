//! gdb's JIT compilation interface (gdb's manual, "JIT Compilation Interface").
//!
//! gdb sets a breakpoint on `__jit_debug_register_code`. When it is hit, gdb reads
//! `__jit_debug_descriptor`: a list of ELF files in memory, and the one that was added or removed.
//! Both symbols are weak, because a host may have a JIT compiler with the same ones.

use std::ptr;
use std::sync::Mutex;

core::arch::global_asm!(
    ".text",
    ".weak __jit_debug_register_code",
    ".type __jit_debug_register_code, @function",
    "__jit_debug_register_code:",
    // The debugger stops here.
    "    nop",
    "    ret",
    ".size __jit_debug_register_code, . - __jit_debug_register_code",
    ".section .data.__jit_debug_descriptor,\"aw\",@progbits",
    ".p2align 3",
    ".weak __jit_debug_descriptor",
    ".type __jit_debug_descriptor, @object",
    "__jit_debug_descriptor:",
    // version, action, relevant entry, first entry
    "    .long 1, 0",
    "    .quad 0, 0",
    ".size __jit_debug_descriptor, . - __jit_debug_descriptor",
    ".text",
    options(att_syntax)
);

/// `struct jit_descriptor`
#[repr(C)]
struct Descriptor {
    version: u32,
    action: u32,
    relevant: *mut Entry,
    first: *mut Entry,
}

/// `struct jit_code_entry`
#[repr(C)]
struct Entry {
    next: *mut Entry,
    previous: *mut Entry,
    file: *const u8,
    size: u64,
}

/// Values of [`Descriptor::action`].
const REGISTER: u32 = 1;
const UNREGISTER: u32 = 2;

unsafe extern "C" {
    static mut __jit_debug_descriptor: Descriptor;
    fn __jit_debug_register_code();
}

/// Held by whoever uses the list.
static LIST: Mutex<()> = Mutex::new(());

/// A file that the debugger knows. Dropping it takes it back.
pub(crate) struct Registered {
    entry: *mut Entry,
    /// Its length in bytes.
    size: usize,
}

// SAFETY: the entry belongs to this value and to the list, which is used under a lock.
unsafe impl Send for Registered {}
// SAFETY: as above. A shared reference gives no access.
unsafe impl Sync for Registered {}

impl Registered {
    /// Tells the debugger of a file.
    pub(crate) fn new(file: Vec<u8>) -> Self {
        let size = file.len();
        let file = Box::into_raw(file.into_boxed_slice());
        let entry = Entry {
            next: ptr::null_mut(),
            previous: ptr::null_mut(),
            file: file.cast_const().cast(),
            size: size as u64,
        };
        let entry = Box::into_raw(Box::new(entry));
        let _list = LIST.lock().unwrap_or_else(|broken| broken.into_inner());
        let list = &raw mut __jit_debug_descriptor;
        // SAFETY: the list and its entries are changed under the lock only. Entries live until they
        // are taken out.
        unsafe {
            (*entry).next = (*list).first;
            if !(*list).first.is_null() {
                (*(*list).first).previous = entry;
            }
            (*list).first = entry;
            announce(REGISTER, entry);
        }
        Self { entry, size }
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        let _list = LIST.lock().unwrap_or_else(|broken| broken.into_inner());
        let list = &raw mut __jit_debug_descriptor;
        // SAFETY: as in `new`. The entry and its file were made there, and nobody else frees them.
        unsafe {
            let Entry { next, previous, file, .. } = *self.entry;
            match previous.is_null() {
                true => (*list).first = next,
                false => (*previous).next = next,
            }
            if !next.is_null() {
                (*next).previous = previous;
            }
            announce(UNREGISTER, self.entry);
            drop(Box::from_raw(self.entry));
            drop(Box::from_raw(ptr::slice_from_raw_parts_mut(file.cast_mut(), self.size)));
        }
    }
}

/// Lets the debugger look at the list.
///
/// # Safety
/// The caller holds the lock, and the list is whole.
unsafe fn announce(action: u32, entry: *mut Entry) {
    let list = &raw mut __jit_debug_descriptor;
    // SAFETY: see the function's contract.
    unsafe {
        (*list).action = action;
        (*list).relevant = entry;
        __jit_debug_register_code();
    }
}
