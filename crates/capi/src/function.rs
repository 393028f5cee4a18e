//! Functions of domains: found once, called often.

use crate::border::{Result, api, give, handle, place, text, values};
use crate::enter::{Inside, enter, sfi_world};
use crate::error::{ARGUMENTS, Failure, INVALID, UNTIMED};
use crate::shape::Shape;
use sfi_loader::interface::{Declaration, Kind};
use sfi_loader::{Bound, Code, DynFn, Enter, Limits, Raw};
use std::ffi::{c_char, c_void};
use std::ptr;
use std::time::Duration;

/// `sfi_value`.
#[derive(Clone, Copy)]
#[repr(C)]
pub union sfi_value {
    /// The raw bits.
    pub u: u64,
    /// An integer.
    pub i: i64,
    /// A floating-point number.
    pub f: f64,
}

impl sfi_value {
    /// Returns the bits of the register.
    pub fn bits(self) -> u64 {
        // SAFETY: all fields have 64 bits, of which all are valid integers.
        unsafe { self.u }
    }
}

/// `sfi_argument`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct sfi_argument {
    pub(crate) value: sfi_value,
    pub(crate) data: *mut c_void,
    pub(crate) size: usize,
}

/// `sfi_limits`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct sfi_limits {
    wall_ns: u64,
    cpu_ns: u64,
}

impl sfi_limits {
    pub(crate) fn limits(self) -> Limits {
        let time = |ns: u64| (ns > 0).then(|| Duration::from_nanos(ns));
        Limits { wall: time(self.wall_ns), cpu: time(self.cpu_ns) }
    }
}

/// `sfi_function`.
#[derive(Debug)]
pub struct sfi_function(Way);

/// The way into a function.
#[derive(Debug)]
enum Way {
    /// One word for each argument.
    Words(DynFn),
    /// Arguments or the result are structures.
    Shaped(Box<Code>, Shape),
}

impl Way {
    /// Returns the number of words that a call takes.
    fn words(&self) -> usize {
        match self {
            Way::Words(function) => function.signature().arguments.len(),
            Way::Shaped(_, shape) => shape.words(),
        }
    }
}

/// `sfi_bound`.
#[derive(Debug)]
pub struct sfi_bound(Bound);

/// A callee that can be called from outside and from within a host function.
trait Callee {
    fn call(&self, way: &mut (impl Enter + ?Sized)) -> Result<[u64; 2]>;
}

/// A function, and the words of its arguments.
struct Words<'c>(&'c Way, Vec<u64>);

impl Callee for Words<'_> {
    fn call(&self, way: &mut (impl Enter + ?Sized)) -> Result<[u64; 2]> {
        match self.0 {
            Way::Words(function) => Ok([function.call(way, &self.1)?, 0]),
            Way::Shaped(code, shape) => Ok(shape.result(&code.call(way, &shape.sorted(&self.1).registers())?)),
        }
    }
}

/// A function and its buffers. The caller of `sfi_bound_call` vouches for them.
struct Buffers<'c>(&'c Bound, Vec<Raw>);

impl Callee for Buffers<'_> {
    fn call(&self, way: &mut (impl Enter + ?Sized)) -> Result<[u64; 2]> {
        // SAFETY: the host promises the sizes of its buffers.
        Ok([unsafe { self.0.call_raw(way, &self.1) }?, 0])
    }
}

/// Calls within the given limits, if there are any.
///
/// # Safety
/// As for [`enter`]; `limits` is null or can be read.
unsafe fn cross(world: *mut sfi_world, limits: *const sfi_limits, callee: &impl Callee) -> Result<[u64; 2]> {
    // SAFETY: see the function's contract.
    unsafe {
        let limits = limits.as_ref().map(|limits| limits.limits()).filter(|l| l.wall.is_some() || l.cpu.is_some());
        enter(world, |inside| match (inside, limits) {
            (inside, None) => callee.call(inside.way()),
            (Inside::World(world), Some(limits)) => world.within(limits, |world| callee.call(world))?,
            (Inside::Host(_), Some(_)) => {
                let why = "a call within a host function is part of the call in progress and has its limits";
                Err(Failure::new(UNTIMED, why))
            }
        })
    }
}

/// Returns the words of the arguments, as many as the signature has.
///
/// # Safety
/// As for [`values`].
pub(crate) unsafe fn words(arguments: *const sfi_value, count: usize, expected: usize) -> Result<Vec<u64>> {
    as_many(count, expected)?;
    // SAFETY: see the function's contract.
    let arguments = unsafe { values(arguments, count, "arguments") }?;
    Ok(arguments.iter().map(|value| value.bits()).collect())
}

/// Checks that there are as many arguments as parameters, before any argument is read.
fn as_many(count: usize, expected: usize) -> Result {
    if count == expected {
        return Ok(());
    }
    Err(Failure::new(ARGUMENTS, format!("{count} arguments for {expected} parameters")))
}

fn raws(declaration: &Declaration, arguments: &[sfi_argument]) -> Result<Vec<Raw>> {
    // Each argument is read once, so the value that is checked is the value that is used.
    let raw = |(parameter, argument): (&sfi_loader::interface::Parameter, sfi_argument)| match parameter.kind {
        Kind::Number(_) | Kind::Function(_) => Ok(Raw::Word(argument.value.bits())),
        Kind::Buffer { .. } if argument.data.is_null() && argument.size > 0 => {
            Err(Failure::new(INVALID, format!("the buffer `{}` is NULL", parameter.name)))
        }
        Kind::Buffer { .. } => Ok(Raw::Buffer(argument.data.cast(), argument.size)),
    };
    declaration.parameters.iter().zip(arguments.iter().copied()).map(raw).collect()
}

api! {
    /// Finds a function of a domain by its signature.
    fn sfi_function_find(world: *mut sfi_world, domain: *const c_char, name: *const c_char, signature: *const c_char, function: *mut *mut sfi_function) {
        let to = place(function, "function")?;
        to.write(ptr::null_mut());
        let (domain, name) = (text(domain, "domain")?, text(name, "name")?);
        let mut shape = Shape::parse(text(signature, "signature")?)?;
        let found = enter(world, |inside| {
            let domain = match &inside {
                Inside::World(world) => world.domain(domain)?,
                Inside::Host(call) => call.domain(domain)?,
            };
            Ok(match shape.plain.take() {
                Some(signature) => Way::Words(domain.export_dynamic(name, signature)?),
                None => Way::Shaped(Box::new(domain.code_named(name)?), shape),
            })
        })?;
        to.write(Box::into_raw(Box::new(sfi_function(found))));
        Ok(())
    }

    /// Finds a function of a domain by a function pointer.
    fn sfi_function_at(world: *mut sfi_world, domain: *const c_char, pointer: u64, signature: *const c_char, function: *mut *mut sfi_function) {
        let to = place(function, "function")?;
        to.write(ptr::null_mut());
        let domain = text(domain, "domain")?;
        let mut shape = Shape::parse(text(signature, "signature")?)?;
        let found = enter(world, |inside| {
            let domain = match &inside {
                Inside::World(world) => world.domain(domain)?,
                Inside::Host(call) => call.domain(domain)?,
            };
            Ok(match shape.plain.take() {
                Some(signature) => Way::Words(domain.dynamic_at(pointer, signature)?),
                None => Way::Shaped(Box::new(domain.code_at(pointer)?), shape),
            })
        })?;
        to.write(Box::into_raw(Box::new(sfi_function(found))));
        Ok(())
    }

    /// Calls a function.
    fn sfi_call(world: *mut sfi_world, function: *const sfi_function, arguments: *const sfi_value, count: usize, limits: *const sfi_limits, result: *mut sfi_value) {
        let function = &handle(function, "function")?.0;
        let [first, second] = cross(world, limits, &Words(function, words(arguments, count, function.words())?))?;
        give(result, sfi_value { u: first });
        if let Way::Shaped(_, shape) = function && shape.has_two_results() && !result.is_null() {
            result.add(1).write(sfi_value { u: second });
        }
        Ok(())
    }

    /// Finds a function of a domain by its declaration.
    fn sfi_bound_find(world: *mut sfi_world, domain: *const c_char, declaration: *const c_char, bound: *mut *mut sfi_bound) {
        let to = place(bound, "bound")?;
        to.write(ptr::null_mut());
        let domain = text(domain, "domain")?;
        let declaration: Declaration = text(declaration, "declaration")?.parse()?;
        let found = enter(world, |inside| match inside {
            Inside::World(world) => Ok(world.domain(domain)?.bind(&declaration)?),
            Inside::Host(call) => Ok(call.bind(domain, &declaration)?),
        })?;
        to.write(Box::into_raw(Box::new(sfi_bound(found))));
        Ok(())
    }

    /// Calls a function with buffers.
    fn sfi_bound_call(world: *mut sfi_world, bound: *const sfi_bound, arguments: *const sfi_argument, count: usize, limits: *const sfi_limits, result: *mut sfi_value) {
        let bound = &handle(bound, "bound")?.0;
        as_many(count, bound.declaration().parameters.len())?;
        let raws = raws(bound.declaration(), values(arguments, count, "arguments")?)?;
        let [bits, _] = cross(world, limits, &Buffers(bound, raws))?;
        give(result, sfi_value { u: bits });
        Ok(())
    }
}

/// Frees a function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sfi_function_free(function: *mut sfi_function) {
    if !function.is_null() {
        // SAFETY: from `sfi_function_find`; the crate's documentation states the host's duties.
        drop(unsafe { Box::from_raw(function) });
    }
}

/// Frees a bound function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sfi_bound_free(bound: *mut sfi_bound) {
    if !bound.is_null() {
        // SAFETY: from `sfi_bound_find`; the crate's documentation states the host's duties.
        drop(unsafe { Box::from_raw(bound) });
    }
}
