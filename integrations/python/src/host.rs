//! Host functions that are Python callables.

use crate::convert::{self, Given};
use crate::failure::{self, Failure, Raised};
use crate::inside::Inside;
use crate::scope::Scope;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyDict, PyTuple};
use sfi_loader::interface::{Declaration, Direction, Kind, Scalar};
use sfi_loader::{Builder, HostCall, HostError, Pointer, Received, Signature, World};
use std::panic::resume_unwind;
use std::sync::Arc;

/// A function of the host: a declaration, and the callable that serves it.
#[pyclass(frozen, module = "sfi")]
#[derive(Debug)]
pub struct HostFunction {
    declaration: Declaration,
    callable: Py<PyAny>,
    with_call: bool,
}

#[pymethods]
impl HostFunction {
    #[new]
    #[pyo3(signature = (declaration, function, *, call = false))]
    fn new(declaration: &str, function: Bound<'_, PyAny>, call: bool) -> PyResult<Self> {
        if !function.is_callable() {
            return Err(PyTypeError::new_err("the function cannot be called"));
        }
        let declaration = convert::declaration(function.py(), declaration)?;
        Ok(Self { declaration, callable: function.unbind(), with_call: call })
    }

    /// Returns the name by which manifests grant the function.
    #[getter]
    fn name(&self) -> &str {
        &self.declaration.name
    }

    /// Returns the declaration.
    #[getter]
    fn declaration(&self) -> String {
        self.declaration.to_string()
    }

    /// Returns the signature that imports of it must declare.
    #[getter]
    fn signature(&self) -> String {
        self.declaration.signature()
    }

    #[pyo3(signature = (*arguments, **named))]
    fn __call__<'py>(
        &self,
        py: Python<'py>,
        arguments: &Bound<'py, PyTuple>,
        named: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.callable.bind(py).call(arguments, named)
    }

    fn __repr__(&self) -> String {
        format!("<sfi.HostFunction `{}`>", self.declaration)
    }
}

/// A host function in a world.
#[derive(Debug)]
struct Served {
    inside: Arc<Inside>,
    declaration: Declaration,
    callable: Py<PyAny>,
    with_call: bool,
}

impl HostFunction {
    fn served(&self, py: Python<'_>, inside: &Arc<Inside>) -> Served {
        Served {
            inside: Arc::clone(inside),
            declaration: self.declaration.clone(),
            callable: self.callable.clone_ref(py),
            with_call: self.with_call,
        }
    }

    /// Returns what offers the function to a world that is described.
    pub fn offer(&self, py: Python<'_>, inside: &Arc<Inside>) -> impl FnOnce(Builder) -> Builder + Send + use<> {
        let served = self.served(py, inside);
        move |builder| {
            let (name, declaration) = (served.declaration.name.clone(), served.declaration.clone());
            builder.serve(name, declaration, move |cx, received| served.run(cx, received))
        }
    }

    /// Returns what lends the function to a domain.
    pub fn lend(
        &self,
        py: Python<'_>,
        inside: &Arc<Inside>,
    ) -> PyResult<impl FnOnce(&mut World, &str) -> Result<Pointer, Failure> + Send + use<>> {
        if self.declaration.parameters.iter().any(|p| !matches!(p.kind, Kind::Number(_))) {
            return Err(PyTypeError::new_err("a function that is lent has numbers only"));
        }
        let served = self.served(py, inside);
        Ok(move |world: &mut World, domain: &str| {
            let (name, signature) = (served.declaration.name.clone(), served.declaration.signature());
            Ok(world.lend(domain, &name, &signature, move |cx| {
                let mut received: Vec<Received> = served.words(cx).into_iter().map(Received::Word).collect();
                let result = served.run(cx, &mut received)?;
                cx.set_result_f64(f64::from_bits(result));
                Ok(result)
            })?)
        })
    }
}

impl Served {
    /// Returns the registers of the arguments.
    fn words(&self, cx: &HostCall<'_>) -> Vec<u64> {
        let (mut ints, mut floats) = (0, 0);
        let word = |parameter: &sfi_loader::interface::Parameter| match parameter.kind {
            Kind::Number(scalar) if scalar.is_float() => {
                floats += 1;
                cx.arg_f64(floats - 1).to_bits()
            }
            _ => {
                ints += 1;
                cx.arg(ints - 1)
            }
        };
        self.declaration.parameters.iter().map(word).collect()
    }

    /// Runs the callable. `sfi.HostError` is an error of the domain's call. Any other exception
    /// passes through all domains to the code of Python that called them.
    fn run(&self, cx: &mut HostCall<'_>, received: &mut [Received]) -> Result<u64, HostError> {
        let caller = cx.caller().to_owned();
        let result = self.inside.serve(cx, |scope| {
            Python::attach(|py| {
                let called = self.call(py, scope, caller, received);
                called.map_err(|error| match declared(py, &error) {
                    Ok(true) => Ok(HostError::new(error.value(py).to_string())),
                    Ok(false) => Err(error),
                    Err(other) => Err(other),
                })
            })
        });
        result.map_err(|error| error.unwrap_or_else(|error| resume_unwind(Box::new(Raised(error)))))
    }

    fn call(&self, py: Python<'_>, scope: &Arc<Scope>, caller: String, received: &mut [Received]) -> PyResult<u64> {
        let mut values: Vec<Bound<'_, PyAny>> = Vec::new();
        if self.with_call {
            let call = Call { inside: Arc::clone(&self.inside), scope: Arc::clone(scope), caller };
            values.push(Bound::new(py, call)?.into_any());
        }
        let skipped = values.len();
        for (parameter, received) in self.declaration.parameters.iter().zip(&*received) {
            values.push(match (parameter.kind, received) {
                (Kind::Number(scalar), Received::Word(word)) => convert::number(py, *word, scalar)?,
                (Kind::Buffer { direction: Direction::In, .. }, Received::Elements(elements)) => {
                    PyBytes::new(py, elements).into_any()
                }
                (_, Received::Elements(elements)) => PyByteArray::new(py, elements).into_any(),
                (_, Received::Word(word)) => convert::number(py, *word, Scalar::Unsigned(8))?,
            });
        }
        let result = self.callable.bind(py).call1(PyTuple::new(py, &values)?)?;
        for ((parameter, received), value) in self.declaration.parameters.iter().zip(received).zip(&values[skipped..]) {
            if let (Kind::Buffer { direction, .. }, Received::Elements(elements)) = (parameter.kind, received)
                && direction.writes()
            {
                let written = convert::contents(value)?;
                if written.len() != elements.len() {
                    let message = format!("`{}` was resized by the host function", parameter.name);
                    return Err(PyTypeError::new_err(message));
                }
                elements.copy_from_slice(&written);
            }
        }
        match self.declaration.result {
            Some(scalar) => convert::bits(&result, scalar),
            None => Ok(0),
        }
    }
}

/// Says whether an exception is meant for the domain.
fn declared(py: Python<'_>, error: &PyErr) -> PyResult<bool> {
    let class = py.import("sfi.errors")?.getattr("HostError")?;
    Ok(error.is_instance(py, &class))
}

/// The call of a host function: its caller, and the caller's memory and functions. It can be used
/// by the function's thread until the function returns.
#[pyclass(frozen, module = "sfi")]
#[derive(Debug)]
pub struct Call {
    inside: Arc<Inside>,
    scope: Arc<Scope>,
    caller: String,
}

impl Call {
    fn with<R: Send>(
        &self,
        py: Python<'_>,
        body: impl FnOnce(&mut HostCall<'_>) -> Result<R, Failure> + Send,
    ) -> PyResult<R> {
        let used = py.detach(|| self.scope.with(|call| self.inside.within(|| body(call))));
        let over = || Failure::new(failure::IN_USE, "the call is over, or in use, or another thread's");
        failure::raised(py, used.unwrap_or_else(|| Err(over())))
    }
}

#[pymethods]
impl Call {
    /// Returns the name of the domain that called.
    #[getter]
    fn caller(&self) -> &str {
        &self.caller
    }

    /// Copies out of the caller's memory.
    fn read<'py>(&self, py: Python<'py>, pointer: u64, length: usize) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = self.with(py, |call| Ok(call.read(pointer, length)?))?;
        Ok(PyBytes::new(py, &bytes))
    }

    /// Copies a C string out of the caller's memory, without its zero byte.
    #[pyo3(signature = (pointer, limit = 4096))]
    fn string<'py>(&self, py: Python<'py>, pointer: u64, limit: usize) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = self.with(py, |call| Ok(call.memory().read_c_string(pointer, limit)?))?;
        Ok(PyBytes::new(py, &bytes))
    }

    /// Copies into the caller's memory.
    fn write(&self, py: Python<'_>, pointer: u64, data: &Bound<'_, PyAny>) -> PyResult<()> {
        let data = convert::contents(data)?;
        self.with(py, |call| Ok(call.write(pointer, &data)?))
    }

    /// Calls a function of the caller by its pointer. The declaration has numbers only.
    #[pyo3(signature = (pointer, declaration, *arguments))]
    fn invoke<'py>(
        &self,
        py: Python<'py>,
        pointer: u64,
        declaration: &str,
        arguments: &Bound<'py, PyTuple>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let declaration = convert::declaration(py, declaration)?;
        if declaration.parameters.iter().any(|p| !matches!(p.kind, Kind::Number(_))) {
            return Err(PyTypeError::new_err("a function that is called by its pointer has numbers only"));
        }
        let words: Vec<u64> = convert::arguments(&declaration, arguments)?.iter().map(Given::word).collect();
        let signature = declaration.signature();
        let bits = self.with(py, |call| {
            let bad = |error: sfi_loader::BadSignature| Failure::new(failure::INVALID, error.to_string());
            let signature: Signature = signature.parse().map_err(bad)?;
            Ok(call.function_dynamic(pointer, signature)?.call(call, &words)?)
        })?;
        convert::outcome(py, bits, declaration.result)
    }

    fn __repr__(&self) -> String {
        format!("<sfi.Call of `{}`>", self.caller)
    }
}
