//! Functions of domains: found once by their declaration, called often.

use crate::convert::{self, Given};
use crate::failure::{self, Failure};
use crate::inside::{Shared, Way};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use sfi_loader::{Bound as Callee, Limits, Passed};
use std::sync::Arc;
use std::time::Duration;

/// A function of a domain. It finds its function again after the domain was loaded again.
#[pyclass(frozen, module = "sfi")]
#[derive(Debug)]
pub struct Function {
    shared: Arc<Shared>,
    domain: String,
    callee: Callee,
}

impl Function {
    /// Finds a function of a domain.
    pub fn find(py: Python<'_>, shared: &Arc<Shared>, domain: &str, declaration: &str) -> PyResult<Self> {
        let declaration = convert::declaration(py, declaration)?;
        let callee = shared.enter(py, |way| match way {
            Way::World(world) => Ok(world.domain(domain)?.bind(&declaration)?),
            Way::Host(call) => Ok(call.bind(domain, &declaration)?),
        })?;
        Ok(Self { shared: Arc::clone(shared), domain: domain.to_owned(), callee })
    }
}

/// Reads a time in seconds.
pub fn seconds(time: Option<f64>) -> PyResult<Option<Duration>> {
    let wrong = |_| PyValueError::new_err("a time limit is a number of seconds above 0");
    let positive = |time: Duration| if time.is_zero() { Err(wrong(())) } else { Ok(time) };
    time.map(|time| Duration::try_from_secs_f64(time).map_err(|_| wrong(())).and_then(positive)).transpose()
}

#[pymethods]
impl Function {
    /// Returns the name of the domain.
    #[getter]
    fn domain(&self) -> &str {
        &self.domain
    }

    /// Returns the declaration.
    #[getter]
    fn declaration(&self) -> String {
        self.callee.declaration().to_string()
    }

    #[pyo3(signature = (*arguments, time_limit = None, cpu_limit = None))]
    fn __call__<'py>(
        &self,
        py: Python<'py>,
        arguments: &Bound<'py, PyTuple>,
        time_limit: Option<f64>,
        cpu_limit: Option<f64>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let limits = Limits { wall: seconds(time_limit)?, cpu: seconds(cpu_limit)? };
        let declaration = self.callee.declaration();
        let mut given = convert::arguments(declaration, arguments)?;
        let called = self.shared.enter(py, |way| {
            let mut passed: Vec<Passed<'_>> = given.iter_mut().map(Given::passed).collect();
            call(&self.callee, way, limits, &mut passed)
        });
        convert::finish(py, &given, called.is_ok())?;
        convert::outcome(py, called?, declaration.result)
    }

    fn __repr__(&self) -> String {
        format!("<sfi.Function `{}` of `{}`>", self.callee.declaration(), self.domain)
    }
}

/// Calls within the given limits, if there are any.
fn call(callee: &Callee, way: Way<'_, '_>, limits: Limits, passed: &mut [Passed<'_>]) -> Result<u64, Failure> {
    let limited = limits.wall.is_some() || limits.cpu.is_some();
    match way {
        Way::World(world) if limited => Ok(world.within(limits, |world| callee.call(world, passed))??),
        Way::World(world) => Ok(callee.call(world, passed)?),
        Way::Host(_) if limited => {
            let why = "a call within a host function is part of the call in progress and has its limits";
            Err(Failure::new(failure::UNTIMED, why))
        }
        Way::Host(call) => Ok(callee.call(call, passed)?),
    }
}
