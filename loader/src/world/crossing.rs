//! The host's crossings into domains.

use crate::fault::signal_room;
use crate::fault::thread;
use crate::fault::watch;
use crate::fault::watchdog;
use crate::fault::watched::Watched;
use crate::gate;
use crate::gate::control_stack::ControlStack;
use crate::gate::ids::DomainId;
use crate::gate::records::{Binding, CallFrame, DomainState, MAX_DEPTH, Status, ThreadState, flag};
use crate::vm::address::WindowOffset;
use crate::world::bindings::record::mxcsr_mask;
use crate::world::calls::values::Arguments;
use crate::world::error::{CallError, Failure};
use crate::world::held::Held;
use crate::world::inner::Inner;
use sfi_verifier::Vectors;

impl Held<'_> {
    /// Crosses from the host into a domain.
    ///
    /// # Safety
    /// The binding is one of the world's own, `frame.sp` is a data stack pointer of the callee.
    /// `floats`: the binding's flag.
    #[inline(always)]
    pub(crate) unsafe fn cross(self, binding: &Binding, frame: &mut CallFrame, floats: bool) -> Result<(), Failure> {
        // SAFETY: see the function's contract.
        unsafe {
            let context = self.gates.control.context();
            if (*context).depth | (*context).budgeted != 0 {
                return self.aside(Self::cross_aside, binding, frame, floats);
            }
            if !(*context).watch.is_null() {
                return self.aside(Self::cross_limited, binding, frame, floats);
            }
            self.cross_here(binding, frame, floats, ControlStack::top_of(context))
        }
    }

    /// Crosses as [`Held::cross`], for callers whose frame has an address anyway.
    ///
    /// # Safety
    /// As for [`Held::cross`].
    #[inline]
    pub(crate) unsafe fn cross_in_place(
        self,
        binding: &Binding,
        frame: &mut CallFrame,
        floats: bool,
    ) -> Result<(), Failure> {
        // SAFETY: see the function's contract.
        unsafe {
            let context = self.gates.control.context();
            if (*context).depth | (*context).budgeted != 0 {
                return self.cross_aside(binding, frame, floats);
            }
            if !(*context).watch.is_null() {
                return self.cross_limited(binding, frame, floats);
            }
            self.cross_here(binding, frame, floats, ControlStack::top_of(context))
        }
    }

    /// Says whether a host function is in progress.
    #[inline(always)]
    pub(crate) fn is_nested(&self) -> bool {
        // SAFETY: the context lives as long as the world, which is held.
        unsafe { (*self.gates.control.context()).depth != 0 }
    }

    /// Crosses with all arguments in registers, in a world that handlers of the host interrupt.
    ///
    /// # Safety
    /// As for [`Held::cross_straight`]. The world has a watch, which the watchdog does not look at.
    #[inline(always)]
    pub(crate) unsafe fn cross_interruptible(
        self,
        state: *mut ThreadState,
        binding: &Binding,
        frame: &mut CallFrame,
        floats: bool,
    ) -> Result<(), Failure> {
        // SAFETY: see the function's contract.
        unsafe {
            let context = self.gates.control.context();
            watchdog::begin_alone(context);
            let crossed = self.cross_straight(state, binding, frame, floats);
            watchdog::end_alone(context);
            crossed
        }
    }

    /// Crosses with all arguments in registers.
    ///
    /// # Safety
    /// As for [`Held::cross`]; not nested, and the world has no limits. `state` is that of this
    /// thread, and ready.
    #[inline(always)]
    pub(crate) unsafe fn cross_straight(
        self,
        state: *mut ThreadState,
        binding: &Binding,
        frame: &mut CallFrame,
        floats: bool,
    ) -> Result<(), Failure> {
        // SAFETY: see the function's contract.
        unsafe {
            let control_sp = ControlStack::top_of(self.gates.control.context());
            self.cross_ready(state, binding, frame, floats, control_sp)
        }
    }

    /// Crosses from a host function, or in a world where some domain has a budget of instructions.
    /// A call that is not nested renews these budgets.
    ///
    /// # Safety
    /// As for [`Held::cross`].
    #[inline(never)]
    unsafe fn cross_aside(self, binding: &Binding, frame: &mut CallFrame, floats: bool) -> Result<(), Failure> {
        // SAFETY: see the function's contract. The states live as long as the world, and no domain
        // runs.
        unsafe {
            let context = self.gates.control.context();
            if (*context).depth != 0 {
                return self.cross_nested(binding, frame, floats);
            }
            let states = std::iter::successors((*context).domains.as_mut(), |state| state.next.as_mut());
            states.for_each(|state| state.left = state.instructions);
            if (*context).watch.is_null() {
                return self.cross_here(binding, frame, floats, ControlStack::top_of(context));
            }
            self.cross_limited(binding, frame, floats)
        }
    }

    /// Crosses in another way, with a copy of the frame. The caller's own frame then has no address
    /// and stays in registers.
    ///
    /// # Safety
    /// As for [`Held::cross`].
    #[inline]
    unsafe fn aside(
        self,
        way: unsafe fn(Self, &Binding, &mut CallFrame, bool) -> Result<(), Failure>,
        binding: &Binding,
        frame: &mut CallFrame,
        floats: bool,
    ) -> Result<(), Failure> {
        let mut copy = *frame;
        // SAFETY: see the function's contract.
        let crossed = unsafe { way(self, binding, &mut copy, floats) };
        *frame = copy;
        crossed
    }

    /// Crosses with a time limit.
    ///
    /// # Safety
    /// As for [`Held::cross`].
    #[inline(never)]
    unsafe fn cross_limited(mut self, binding: &Binding, frame: &mut CallFrame, floats: bool) -> Result<(), Failure> {
        // SAFETY: see the function's contract.
        unsafe {
            let context = self.gates.control.context();
            let state = thread::state();
            if !(*state).ready {
                thread::prepare(state);
            }
            watchdog::begin(context, state);
            let crossed = self.again().cross_here(binding, frame, floats, ControlStack::top_of(context));
            if watchdog::end(context, binding.callee) {
                self.trim_some();
            }
            crossed
        }
    }

    /// Crosses from a host function, and puts back the state that an entry changes for good.
    ///
    /// # Safety
    /// As for [`Held::cross`].
    #[cold]
    unsafe fn cross_nested(self, binding: &Binding, frame: &mut CallFrame, floats: bool) -> Result<(), Failure> {
        // SAFETY: see the function's contract.
        unsafe {
            let context = self.gates.control.context();
            if (*context).depth >= MAX_DEPTH || (*context).control_sp < (*context).floor + signal_room::reserve() {
                return Err(Failure::TooDeep);
            }
            let (current, top) = ((*context).current, (*context).top);
            let (host_rsp, control_sp) = ((*context).host_rsp, (*context).control_sp);
            let (host_mxcsr, host_control_word) = ((*context).host_mxcsr, (*context).host_control_word);
            let watch = watch::of(&*context);
            watch.inspect(|w| w.leave_host(context));
            let crossed = self.cross_here(binding, frame, floats, control_sp);
            watch.inspect(|w| w.enter_host(context, binding.callee));
            (*context).current = current;
            (*context).top = top;
            (*context).host_rsp = host_rsp;
            (*context).control_sp = control_sp;
            (*context).host_mxcsr = host_mxcsr;
            (*context).host_control_word = host_control_word;
            crossed
        }
    }

    /// Crosses, with the thread made ready before.
    ///
    /// # Safety
    /// As for [`Held::cross`].
    #[inline(always)]
    unsafe fn cross_here(
        self,
        binding: &Binding,
        frame: &mut CallFrame,
        floats: bool,
        control_sp: u64,
    ) -> Result<(), Failure> {
        let state = thread::state();
        // SAFETY: see the function's contract.
        unsafe {
            if !(*state).ready {
                thread::prepare(state);
            }
            self.cross_ready(state, binding, frame, floats, control_sp)
        }
    }

    /// Makes the crossing itself.
    ///
    /// # Safety
    /// As for [`Held::cross`]. `state` is that of this thread, and ready.
    #[inline(always)]
    unsafe fn cross_ready(
        self,
        state: *mut ThreadState,
        binding: &Binding,
        frame: &mut CallFrame,
        floats: bool,
        control_sp: u64,
    ) -> Result<(), Failure> {
        // SAFETY: see the function's contract. Only raw pointers to the control stack's header are
        // kept across the call.
        unsafe {
            let context = self.gates.control.context();
            let outer = (*state).current;
            (*state).current = context;
            (*context).thread = state;
            let status = gate::enter(self.gates.table.enter, context, binding, state, control_sp, frame, floats);
            (*state).current = outer;
            match status {
                Status::Ok => Ok(()),
                status => Err(Failure::Status(status)),
            }
        }
    }
}

impl Held<'_> {
    /// Calls a function of a domain without arguments. Gives rax.
    pub(crate) fn call_code(&mut self, domain: DomainId, code: WindowOffset) -> Result<u64, CallError> {
        let binding = self.host_binding(domain, code);
        let callee = binding.callee;
        // SAFETY: the binding and the callee are the world's own, and its data stack pointer is in
        // its state while it lives.
        unsafe {
            let mark = match self.go_in(callee) {
                Ok(mark) => mark,
                Err(status) => return Err(self.failure(callee, Failure::Status(status))),
            };
            let mut frame = CallFrame { sp: (*callee).sp, ..CallFrame::new() };
            let crossed = match frame.sp {
                0 => Err(Failure::Status(Status::Dead)),
                _ => self.again().cross(&binding, &mut frame, false),
            };
            self.go_out(callee, mark, crossed.is_err());
            match crossed {
                Ok(()) => Ok(frame.rax),
                Err(failure) => Err(self.failure(callee, failure)),
            }
        }
    }
}

impl Inner {
    /// Says whether the world limits time, or may do so later. That never changes.
    pub(crate) fn is_limited(&self) -> bool {
        self.time.watched.as_ref().is_some_and(Watched::is_by_watchdog)
    }

    /// Says whether the world limits time, or the host's handlers end its calls. That never
    /// changes.
    pub(crate) fn is_watched(&self) -> bool {
        // SAFETY: the context lives as long as the world.
        unsafe { !(*self.gates.control.context()).watch.is_null() }
    }

    /// Says whether some domain has a budget of instructions, which calls of the host renew.
    #[inline(always)]
    pub(crate) fn is_budgeted(&self) -> bool {
        // SAFETY: the context lives as long as the world.
        unsafe { (*self.gates.control.context()).budgeted != 0 }
    }

    /// Copies stack arguments to the callee's data stack and lowers `frame.sp`. Returns `false` if
    /// they do not fit.
    ///
    /// # Safety
    /// `callee` is the state of one of the world's domains.
    #[cold]
    pub(crate) unsafe fn push_arguments(&self, callee: *const DomainState, arguments: &mut Arguments) -> bool {
        // SAFETY: see the function's contract.
        unsafe {
            let domain = &self.domains[(*callee).index];
            let words = arguments.stack();
            let sp = arguments.frame.sp - (words.len() as u64 * 8).next_multiple_of(16);
            let Some(place) = domain.window.place(sp).filter(|_| sp >= (*callee).stack_low.number()) else {
                return false;
            };
            for (i, word) in words.iter().enumerate() {
                domain.window.write(place + 8 * i as u64, &word.to_le_bytes());
            }
            arguments.frame.sp = sp;
            true
        }
    }

    /// Makes a binding for entries of the host.
    pub(crate) fn host_binding(&self, domain: DomainId, code: WindowOffset) -> Binding {
        let callee = &self.domains[domain];
        let zmm = if callee.usage.vectors >= Vectors::Zmm { flag::ZMM_IN } else { 0 };
        let vectors = if callee.side().has_vectors() { flag::VECTORS } else { 0 };
        let x87 = if self.gates.any_x87 { flag::X87 } else { 0 };
        let mxcsr = if callee.usage.mxcsr { flag::MXCSR } else { 0 };
        let pays = if callee.spec.instructions.is_some() { flag::CALLEE_PAYS } else { 0 };
        Binding {
            callee: callee.state,
            entry: callee.window.address(code),
            arguments: 0,
            results: 0,
            failed: self.gates.table.enter_failed,
            on_fault: 0,
            flags: flag::ENTRY | zmm | vectors | x87 | mxcsr | pays,
            failing: 0,
            stack_words: 0,
            pointers: 0,
            ints: 0,
            floats: 0,
            mxcsr: mxcsr_mask(callee.usage),
            base: callee.window.base(),
            shim: 0,
            data: std::ptr::null_mut(),
            gate: 0,
            server: callee.state,
            metered: [0; 2],
            lane: [0; 3],
        }
    }
}
