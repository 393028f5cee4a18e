//! Host functions with a declaration ([`crate::spec::interface`]). A domain's buffers are copied
//! into the host's memory once, before the host function sees any of them. The elements that it
//! wrote are copied back.
//!
//! Nothing is read twice. A length behind a pointer comes from the copy, and the copy back has the
//! length that was checked first. Other writers to the caller's memory (shared regions, host
//! threads) change neither.

use crate::spec::interface::{Declaration, Kind, Length, Parameter, Scalar};
use crate::world::builder::Builder;
use crate::world::calls::buffers_in;
use crate::world::calls::host_call::HostCall;
use crate::world::error::{CallError, HostError};
use sfi_contract::layout::WINDOW_SIZE;
use std::ops::{Deref, DerefMut};

/// A host function's value for a parameter.
#[derive(Debug)]
pub enum Received {
    /// A number: 64 bits of a register, of which the type's lower ones count, or the bits of a
    /// floating-point number. For a function: a function pointer of the caller, for
    /// [`HostCall::function`], or 0.
    Word(u64),
    /// The host's own copy of the elements. They are zero if the callee only writes them, and are
    /// copied back if the declaration says `out` or `inout`.
    Elements(Elements),
}

/// Elements of a buffer as bytes, aligned for every type of elements.
#[derive(Debug)]
pub struct Elements {
    words: Box<[u64]>,
    bytes: usize,
}

impl Elements {
    fn zeroed(bytes: usize) -> Self {
        Self { words: vec![0; bytes.div_ceil(8)].into(), bytes }
    }
}

impl Deref for Elements {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &buffers_in::bytes(&self.words)[..self.bytes]
    }
}

impl DerefMut for Elements {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut buffers_in::bytes_mut(&mut self.words)[..self.bytes]
    }
}

impl Builder {
    /// Offers a host function with a declaration. It gets numbers and copies of buffers, and
    /// returns rax or the bits of the floating-point result. Imports of it need the declaration's
    /// [signature](Declaration::signature). A caller whose pointers or lengths are wrong gets its
    /// import's `on_fault` value and [`crate::Status::Arguments`]. Otherwise as
    /// [`Builder::host_fn`].
    #[must_use]
    pub fn serve(
        self,
        name: impl Into<String>,
        declaration: Declaration,
        mut function: impl FnMut(&mut HostCall<'_>, &mut [Received]) -> Result<u64, HostError> + Send + 'static,
    ) -> Self {
        self.host_fn(name, move |cx| {
            let words = buffers_in::words(cx, &declaration);
            let mut received = receive(cx, &declaration, &words).ok_or_else(|| wrong(cx))?;
            let result = function(cx, &mut received)?;
            for ((parameter, word), received) in declaration.parameters.iter().zip(&words).zip(&received) {
                match (parameter.kind, received) {
                    (Kind::Buffer { direction, .. }, Received::Elements(elements))
                        if direction.writes() && !elements.is_empty() =>
                    {
                        cx.write(*word, elements).map_err(|_| wrong(cx))?;
                    }
                    _ => {}
                }
            }
            if declaration.result.is_some_and(Scalar::is_float) {
                cx.set_result_f64(f64::from_bits(result));
                return Ok(0);
            }
            Ok(result)
        })
    }
}

fn wrong(cx: &HostCall<'_>) -> HostError {
    CallError::Arguments { domain: cx.caller().to_owned() }.into()
}

/// Copies the parameters. Returns `None` if a value does not fit the declaration.
fn receive(cx: &HostCall<'_>, declaration: &Declaration, words: &[u64]) -> Option<Vec<Received>> {
    let own = |(word, p): (&u64, &Parameter)| !matches!(p.kind, Kind::Function(_)) || *word == 0 || cx.owns(*word);
    if !words.iter().zip(&declaration.parameters).all(own) {
        return None;
    }
    let memory = cx.memory();
    let mut received: Vec<Received> = words.iter().map(|word| Received::Word(*word)).collect();
    // Lengths behind pointers come last, because they are read from the copies.
    for behind in [false, true] {
        for (i, parameter) in declaration.parameters.iter().enumerate() {
            let Kind::Buffer { direction, element, length } = parameter.kind else { continue };
            if behind != matches!(length, Length::Pointee(_)) {
                continue;
            }
            let count = match length {
                Length::Constant(count) => count,
                Length::Parameter(of) => buffers_in::number(words[of], declaration.parameters[of].kind)?,
                Length::Pointee(of) => {
                    let Kind::Buffer { element, .. } = declaration.parameters[of].kind else { return None };
                    let Received::Elements(first) = &received[of] else { return None };
                    let first = first.get(..element.size() as usize)?;
                    let mut word = [0; 8];
                    word[..first.len()].copy_from_slice(first);
                    buffers_in::number(u64::from_le_bytes(word), Kind::Number(element))?
                }
            };
            let length = count.checked_mul(element.size()).filter(|bytes| *bytes < WINDOW_SIZE)? as usize;
            // The buffer is checked before the host takes memory for it.
            if length > 0 && direction.writes() {
                memory.writable(words[i], length).ok()?;
            } else if length > 0 {
                memory.find(words[i], length).ok()?;
            }
            let mut elements = Elements::zeroed(length);
            if length > 0 && direction.reads() {
                memory.read_into(words[i], &mut elements).ok()?;
            }
            received[i] = Received::Elements(elements);
        }
    }
    Some(received)
}
