//! Interruptions: the signal handler lets a running domain go on in a function of its own, and when
//! that function returns, at the interrupted instruction with all registers as they were.
//!
//! The function is entered as after a fault ([`crate::fault::deliver`]): it is the domain's own by
//! name, its registers are 0, the floating-point state is that of a new thread, and its return
//! address is a trap of the domain, the one that says how many registers the interrupted function
//! had saved on the control stack ([`crate::gate::depths`]). The registers of the interrupted code
//! are kept here, in memory of the host. Its scratch words in the TCB page are kept with them. The
//! function's return faults at the trap with the stack pointers of the interruption, and the
//! handler of that fault puts all of them back. Functions may return in any order, because the
//! domain may switch fibers in them.
//!
//! This is safe at every instruction of the text, also inside an unsafe region. The domain goes on
//! with the registers that it had, and regions read only memory that nobody can write. Gates and
//! stubs are no text, so nothing of the host is ever interrupted. A function that does not return
//! leaves its interruption unused. If such a domain then reaches the same trap with the same stack
//! pointer, it goes on in an old state of its own, as by [`sfi_contract::names::BRING`]. The trap
//! says that as many saved registers lie at rsp as that state had, and above them a return address.
//! So the old state finds the control stack in the order that its place needs.
//!
//! Protection keys are the host's. So is the x87 state if the text names none of it, because gates
//! then leave it as it is. Neither of them is changed or put back.

use crate::fault::deliver;
use crate::fault::interrupted::{Interruptions, NESTED, REGISTERS, WORDS};
use crate::fault::watch::{self, Watch};
use crate::gate::MXCSR_DEFAULT;
use crate::gate::control_stack::ControlStack;
use crate::gate::records::{Context, DomainState, Status};
use libc::{REG_R15, REG_RIP, REG_RSP, c_int, siginfo_t, ucontext_t};
use sfi_contract::layout::{STACK_BELOW, TCB_R15};
use std::ops::Range;
use std::ptr;
use std::sync::atomic::Ordering;

/// Offsets in the floating-point state of a signal's frame (Intel SDM, volume 1, 13.4; Linux,
/// asm/sigcontext.h): MXCSR after the words of x87, the registers of x87, the kernel's words with a
/// magic number and the size of the state, and the list of components that are not in their initial
/// state.
const MXCSR: usize = 24;
const X87_REGISTERS: Range<usize> = 32..160;
const SOFTWARE: usize = 464;
const SIZE: usize = SOFTWARE + 16;
const COMPONENTS: usize = 512;
const MAGIC: u32 = 0x4650_5853;

/// Says whether the running thread's domain is to be interrupted. Async-signal-safe.
pub(crate) fn is_wanted(context: &Context) -> bool {
    watch::of(context).is_some_and(Watch::is_interruption_wanted)
}

/// Returns the floating-point state in a signal's frame, or `None` if it is not in the form of
/// `xsave` or does not fit.
///
/// # Safety
/// `machine` is what the kernel passed to a signal handler that runs now.
unsafe fn floats(machine: &ucontext_t, most: usize) -> Option<(*mut u8, usize)> {
    let context = &raw const machine.uc_mcontext;
    // The pointer lies behind the registers, with which the context begins (Linux,
    // asm/sigcontext.h). musl gives it no name.
    // SAFETY: the kernel's record has it, and so has the type of either C library.
    let state = unsafe { context.byte_add(size_of_val(&machine.uc_mcontext.gregs)).cast::<*mut u8>().read() };
    if state.is_null() {
        return None;
    }
    // SAFETY: the frame has at least the 512 bytes of `fxsave`, whose last ones say how large the
    // whole state is.
    let (magic, size) =
        unsafe { (state.add(SOFTWARE).cast::<u32>().read(), state.add(SIZE).cast::<u32>().read() as usize) };
    (magic == MAGIC && (COMPONENTS + 64..=most).contains(&size)).then_some((state, size))
}

/// Interrupts the domain if it runs its text now, and if it has the room. Otherwise the signal
/// comes again. Async-signal-safe.
///
/// # Safety
/// `context` is that of the world that this thread runs, and `machine` what the kernel passed to a
/// signal handler that runs now.
pub(crate) unsafe fn interrupt(context: &mut Context, machine: &mut ucontext_t) -> bool {
    let Some(watch) = watch::of(context) else { return false };
    // SAFETY: the records live as long as the watch, which lives as long as the world. Only
    // handlers of the thread that runs the world use the kept registers, and they do not interrupt
    // each other. The TCB page is mapped as long as the domain lives.
    unsafe {
        let (Some(all), Some(domain)) = (watch.interruptions(), context.current.as_ref()) else { return false };
        let gregs = &machine.uc_mcontext.gregs;
        let (rip, rsp) = (gregs[REG_RIP as usize] as u64, gregs[REG_RSP as usize] as u64);
        let room = rsp.is_multiple_of(8) && ControlStack::area(context).contains(&rsp) && rsp - 8 > context.floor;
        let runs = context.top != 0 && ptr::eq(domain, all.domain) && domain.dead == Status::Ok;
        if !runs || context.room || !all.place.is_text(rip) || !room {
            return false;
        }
        let stack = &mut *all.kept.get();
        if stack.used == NESTED {
            // A function that was left by a jump does not return any more: its place is above all
            // calls, or taken. One of a fiber that waits looks alike, so the oldest goes, and only
            // if there is no room.
            let taken = |i: usize| stack.kept[i + 1..].iter().any(|later| later.rsp() == stack.kept[i].rsp());
            let left = |i: &usize| {
                let (at, trap) = (stack.kept[*i].rsp(), all.place.trap(stack.kept[*i].depth));
                at <= rsp || ((at - 8) as *const u64).read() != trap || taken(*i)
            };
            if let Some(oldest) = (0..NESTED).find(left) {
                stack.remove(oldest);
            }
        }
        let Some(kept) = stack.kept.get_mut(stack.used) else { return false };
        let Some((state, size)) = floats(machine, kept.floats.len()) else { return false };
        kept.registers.copy_from_slice(&gregs[..REGISTERS]);
        kept.depth = domain.depths.at(rip);
        ptr::copy_nonoverlapping(state, kept.floats.as_mut_ptr(), size);
        let words = (domain.tcb.number() + TCB_R15.addend as u64) as *const u64;
        ptr::copy_nonoverlapping(words, kept.words.as_mut_ptr(), WORDS);
        stack.used += 1;
        // A state without components is that of a new thread, but for MXCSR, which is always read.
        let components = state.add(COMPONENTS).cast::<u64>();
        components.write(components.read() & all.of_host());
        state.add(MXCSR).cast::<u32>().write(MXCSR_DEFAULT);
        deliver::enter((&all.place, kept.depth), [0; 3], machine);
        // r15 may hold any value.
        let lead = &mut machine.uc_mcontext.gregs[REG_R15 as usize];
        *lead = lead.wrapping_sub(STACK_BELOW);
        watch.want_interruption(false);
    }
    true
}

/// Puts back the registers of interrupted code, if the fault is the return of its interruption.
/// Async-signal-safe.
///
/// # Safety
/// As for [`interrupt`]; the rest is what the kernel passed to the handler of the fault, and a
/// domain runs.
pub(crate) unsafe fn go_on(context: &Context, signal: c_int, info: &siginfo_t, machine: &mut ucontext_t) -> bool {
    let Some(watch) = watch::of(context) else { return false };
    // SAFETY: as in `interrupt`.
    unsafe {
        let (Some(all), Some(domain)) = (watch.interruptions(), context.current.as_ref()) else { return false };
        let gregs = &machine.uc_mcontext.gregs;
        let (rip, rsp) = (gregs[REG_RIP as usize] as u64, gregs[REG_RSP as usize] as u64);
        let depth = domain.depths.at(rip);
        if signal != libc::SIGILL || info.si_code <= 0 || rip != all.place.trap(depth) || !ptr::eq(domain, all.domain) {
            return false;
        }
        let stack = &mut *all.kept.get();
        let Some(number) = stack.find((rsp, depth), gregs[REG_R15 as usize]) else { return false };
        let kept = &stack.kept[number];
        let Some((state, size)) = floats(machine, kept.floats.len()) else { return false };
        machine.uc_mcontext.gregs[..REGISTERS].copy_from_slice(&kept.registers);
        let words = (domain.tcb.number() + TCB_R15.addend as u64) as *mut u64;
        ptr::copy_nonoverlapping(kept.words.as_ptr(), words, WORDS);
        let components = state.add(COMPONENTS).cast::<u64>();
        let keys = all.keys.filter(|at| at + 4 <= size).map(|at| state.add(at).cast::<u32>());
        let (host, old) = (all.of_host(), (components.read(), keys.map(|keys| keys.read())));
        // The kernel's own words stay.
        let x87 = if all.x87 { [0..MXCSR, X87_REGISTERS] } else { [0..0, 0..0] };
        let others = [MXCSR..X87_REGISTERS.start, X87_REGISTERS.end..SOFTWARE, COMPONENTS..size];
        for part in x87.into_iter().chain(others) {
            ptr::copy_nonoverlapping(kept.floats[part.clone()].as_ptr(), state.add(part.start), part.len());
        }
        components.write(components.read() & !host | old.0 & host);
        if let (Some(keys), Some(old)) = (keys, old.1) {
            keys.write(old);
        }
        stack.remove(number);
    }
    true
}

impl Watch {
    /// Says whether the domain is to be interrupted.
    pub(crate) fn is_interruption_wanted(&self) -> bool {
        self.wanted.load(Ordering::Acquire)
    }

    /// Wants an interruption, or wants it no more.
    pub(crate) fn want_interruption(&self, wanted: bool) {
        self.wanted.store(wanted, Ordering::Release);
    }

    /// Lets the world's domain be interrupted. The first record stays.
    pub(crate) fn allow_interruptions(&self, all: Interruptions) {
        let all = Box::into_raw(Box::new(all));
        let first = self.interruptions.compare_exchange(ptr::null_mut(), all, Ordering::AcqRel, Ordering::Acquire);
        if first.is_err() {
            // SAFETY: made above, and nobody else got it.
            drop(unsafe { Box::from_raw(all) });
        }
    }

    /// Forgets that a domain may be interrupted, and what was kept of its life, which is over. No
    /// call of the domain is in progress.
    pub(crate) fn forget_interruptions(&self, domain: *const DomainState) {
        if self.interruptions().is_none_or(|all| !ptr::eq(all.domain, domain)) {
            return;
        }
        self.want_interruption(false);
        let all = self.interruptions.swap(ptr::null_mut(), Ordering::AcqRel);
        // SAFETY: `allow_interruptions` made it. Only this thread and its signal handlers use it,
        // and these find it no more.
        drop(unsafe { Box::from_raw(all) });
    }

    /// Returns the record of the domain that may be interrupted.
    pub(super) fn interruptions(&self) -> Option<&Interruptions> {
        // SAFETY: the thread that runs the world drops the record, or the last owner of the watch.
        unsafe { self.interruptions.load(Ordering::Acquire).as_ref() }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let all = *self.interruptions.get_mut();
        if !all.is_null() {
            // SAFETY: `allow_interruptions` made it, and nobody uses the watch any more.
            drop(unsafe { Box::from_raw(all) });
        }
    }
}
