//! Values between Python and the registers and buffers of declarations.

use crate::failure::{self, Failure};
use pyo3::exceptions::{PyOverflowError, PyTypeError};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyBytes, PyTuple};
use sfi_loader::Passed;
use sfi_loader::interface::{Declaration, Direction, Kind, Parameter, Scalar};

/// Returns the 64 bits of a number. A number that its type does not have is an exception.
pub fn bits(value: &Bound<'_, PyAny>, scalar: Scalar) -> PyResult<u64> {
    let too_large = || PyOverflowError::new_err(format!("the number does not fit into {}", scalar.rust()));
    match scalar {
        Scalar::Float(4) => Ok(u64::from((value.extract::<f64>()? as f32).to_bits())),
        Scalar::Float(_) => Ok(value.extract::<f64>()?.to_bits()),
        Scalar::Signed(size) => {
            let number: i64 = value.extract()?;
            let unused = 64 - 8 * u32::from(size);
            if (number << unused) >> unused == number { Ok(number as u64) } else { Err(too_large()) }
        }
        Scalar::Unsigned(size) => {
            let number: u64 = value.extract()?;
            let unused = 64 - 8 * u32::from(size);
            if (number << unused) >> unused == number { Ok(number) } else { Err(too_large()) }
        }
    }
}

/// Makes a number from a register. The upper bits of narrow types do not count.
pub fn number<'py>(py: Python<'py>, bits: u64, scalar: Scalar) -> PyResult<Bound<'py, PyAny>> {
    let unused = |size: u8| 64 - 8 * u32::from(size);
    Ok(match scalar {
        Scalar::Float(4) => f64::from(f32::from_bits(bits as u32)).into_pyobject(py)?.into_any(),
        Scalar::Float(_) => f64::from_bits(bits).into_pyobject(py)?.into_any(),
        Scalar::Signed(size) => (((bits << unused(size)) as i64) >> unused(size)).into_pyobject(py)?.into_any(),
        Scalar::Unsigned(size) => ((bits << unused(size)) >> unused(size)).into_pyobject(py)?.into_any(),
    })
}

/// Makes the result of a call.
pub fn outcome<'py>(py: Python<'py>, bits: u64, result: Option<Scalar>) -> PyResult<Bound<'py, PyAny>> {
    match result {
        Some(scalar) => number(py, bits, scalar),
        None => Ok(py.None().into_bound(py)),
    }
}

/// Returns the bytes of any object with a buffer. Nobody changes them any more.
pub fn contents(value: &Bound<'_, PyAny>) -> PyResult<PyBackedBytes> {
    match value.cast::<PyBytes>() {
        Ok(bytes) => Ok(bytes.clone().into()),
        Err(_) => Ok(view(value)?.call_method0("tobytes")?.cast_into::<PyBytes>()?.into()),
    }
}

/// Returns a `memoryview` of an object with a buffer.
fn view<'py>(value: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    value.py().import("builtins")?.getattr("memoryview")?.call1((value,))
}

/// An argument for a domain. It holds copies of buffers that others could change during the call.
#[derive(Debug)]
pub enum Given {
    Word(u64),
    In(PyBackedBytes),
    Out(Target),
    InOut(Target),
}

/// A buffer that gets the elements that a domain wrote.
#[derive(Debug)]
pub struct Target {
    /// A view of bytes, which keeps the buffer's size.
    view: Py<PyAny>,
    bytes: Vec<u8>,
}

impl Target {
    fn new(value: &Bound<'_, PyAny>, name: &str) -> PyResult<Self> {
        let view = view(value)?.call_method1("cast", ("B",))?;
        if view.getattr("readonly")?.is_truthy()? {
            return Err(PyTypeError::new_err(format!("`{name}`: the buffer is read-only")));
        }
        let bytes = view.call_method0("tobytes")?.cast_into::<PyBytes>()?.as_bytes().to_vec();
        Ok(Self { view: view.unbind(), bytes })
    }

    fn store(&self, py: Python<'_>) -> PyResult<()> {
        let view = self.view.bind(py);
        view.set_item(pyo3::types::PySlice::full(py), PyBytes::new(py, &self.bytes))
    }

    fn release(&self, py: Python<'_>) -> PyResult<()> {
        self.view.bind(py).call_method0("release").map(|_| ())
    }
}

impl Given {
    fn new(parameter: &Parameter, value: &Bound<'_, PyAny>) -> PyResult<Self> {
        match parameter.kind {
            Kind::Number(scalar) => bits(value, scalar).map(Self::Word),
            Kind::Function(_) => value.extract().map(Self::Word),
            Kind::Buffer { direction: Direction::In, .. } => contents(value).map(Self::In),
            Kind::Buffer { direction: Direction::Out, .. } => Target::new(value, &parameter.name).map(Self::Out),
            Kind::Buffer { direction: Direction::InOut, .. } => Target::new(value, &parameter.name).map(Self::InOut),
        }
    }

    /// Returns the argument in the loader's form.
    pub fn passed(&mut self) -> Passed<'_> {
        match self {
            Given::Word(word) => Passed::Word(*word),
            Given::In(bytes) => Passed::In(bytes),
            Given::Out(target) => Passed::Out(&mut target.bytes),
            Given::InOut(target) => Passed::InOut(&mut target.bytes),
        }
    }

    /// Returns the argument's word, 0 for a buffer.
    pub fn word(&self) -> u64 {
        if let Given::Word(word) = self { *word } else { 0 }
    }

    fn target(&self) -> Option<&Target> {
        match self {
            Given::Out(target) | Given::InOut(target) => Some(target),
            _ => None,
        }
    }
}

/// Converts the arguments of a call.
pub fn arguments(declaration: &Declaration, values: &Bound<'_, PyTuple>) -> PyResult<Vec<Given>> {
    let expected = declaration.parameters.len();
    if values.len() != expected {
        let message = format!("`{}` takes {expected} arguments, {} were given", declaration.name, values.len());
        return Err(PyTypeError::new_err(message));
    }
    declaration.parameters.iter().zip(values.iter()).map(|(parameter, value)| Given::new(parameter, &value)).collect()
}

/// Releases the caller's buffers. If the call succeeded, they first get what the domain wrote.
pub fn finish(py: Python<'_>, given: &[Given], succeeded: bool) -> PyResult<()> {
    let targets = || given.iter().filter_map(Given::target);
    let stored = if succeeded { targets().try_for_each(|target| target.store(py)) } else { Ok(()) };
    targets().try_for_each(|target| target.release(py))?;
    stored
}

/// Reads a declaration.
pub fn declaration(py: Python<'_>, text: &str) -> PyResult<Declaration> {
    failure::raised(py, text.parse().map_err(Failure::from))
}
