//! The memory of domains and shared regions. Every access copies, and checks bounds and the
//! domain's life.

use crate::convert;
use crate::failure::{self, Failure};
use crate::inside::{Shared, Way};
use pyo3::exceptions::{PyIndexError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PySlice};
use sfi_loader::{Memory as Window, Tenant};
use std::sync::Arc;

/// The memory of a domain.
#[pyclass(frozen, module = "sfi")]
#[derive(Debug)]
pub struct Memory {
    shared: Arc<Shared>,
    domain: String,
}

/// Uses the memory of a domain in its present life.
fn with<R>(
    way: Way<'_, '_>,
    domain: &str,
    body: impl FnOnce(Window<'_>, Tenant) -> Result<R, Failure>,
) -> Result<R, Failure> {
    match way {
        Way::World(world) => {
            let tenant = world.domain(domain)?.tenant();
            body(world.memory(domain)?, tenant)
        }
        Way::Host(call) if call.caller() == domain => body(call.memory(), call.tenant()),
        Way::Host(_) => Err(Failure::new(failure::IN_USE, "within a host function, only the caller's memory is open")),
    }
}

impl Memory {
    /// Finds the memory of a domain.
    pub fn find(py: Python<'_>, shared: &Arc<Shared>, domain: &str) -> PyResult<Self> {
        shared.enter(py, |way| with(way, domain, |_, _| Ok(())))?;
        Ok(Self { shared: Arc::clone(shared), domain: domain.to_owned() })
    }

    fn with<R: Send>(
        &self,
        py: Python<'_>,
        body: impl FnOnce(Window<'_>, Tenant) -> Result<R, Failure> + Send,
    ) -> PyResult<R> {
        self.shared.enter(py, |way| with(way, &self.domain, body))
    }
}

#[pymethods]
impl Memory {
    /// Returns the name of the domain.
    #[getter]
    fn domain(&self) -> &str {
        &self.domain
    }

    /// Copies out of the domain's memory.
    fn read<'py>(&self, py: Python<'py>, pointer: u64, length: usize) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = self.with(py, |memory, _| Ok(memory.read(pointer, length)?))?;
        Ok(PyBytes::new(py, &bytes))
    }

    /// Copies a C string out of the domain's memory, without its zero byte.
    #[pyo3(signature = (pointer, limit = 4096))]
    fn string<'py>(&self, py: Python<'py>, pointer: u64, limit: usize) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = self.with(py, |memory, _| Ok(memory.read_c_string(pointer, limit)?))?;
        Ok(PyBytes::new(py, &bytes))
    }

    /// Copies into the domain's memory.
    fn write(&self, py: Python<'_>, pointer: u64, data: &Bound<'_, PyAny>) -> PyResult<()> {
        let data = convert::contents(data)?;
        self.with(py, |mut memory, _| Ok(memory.write(pointer, &data)?))
    }

    /// Returns the address of a global variable, in the domain's terms.
    fn symbol(&self, py: Python<'_>, name: &str) -> PyResult<u64> {
        let domain = &self.domain;
        self.shared.alone(py, |world| {
            let found = world.domain(domain)?.symbol(name);
            let unknown = || Failure::new(failure::NOT_FOUND, format!("domain `{domain}` has no variable `{name}`"));
            Ok(found.ok_or_else(unknown)?.0)
        })
    }

    /// Returns a view of a part of the memory.
    fn view(&self, py: Python<'_>, pointer: u64, length: usize) -> PyResult<View> {
        // A part that is not memory is an error now, and again at each access.
        let tenant = self.with(py, |memory, tenant| {
            memory.in_bounds(pointer, length)?;
            Ok(tenant)
        })?;
        let (shared, domain) = (Arc::clone(&self.shared), self.domain.clone());
        Ok(View { shared, domain, pointer, length, tenant })
    }

    fn __repr__(&self) -> String {
        format!("<sfi.Memory of `{}`>", self.domain)
    }
}

/// A part of a domain's memory, as a sequence of bytes that may change at any time.
#[pyclass(frozen, module = "sfi")]
#[derive(Debug)]
pub struct View {
    shared: Arc<Shared>,
    domain: String,
    pointer: u64,
    length: usize,
    tenant: Tenant,
}

/// A part of a view.
enum Part {
    Byte(usize),
    Range(usize, usize),
}

impl View {
    fn part(&self, index: &Bound<'_, PyAny>) -> PyResult<Part> {
        if let Ok(slice) = index.cast::<PySlice>() {
            let found = slice.indices(self.length as isize)?;
            if found.step != 1 {
                return Err(PyValueError::new_err("a slice of a view has the step 1"));
            }
            return Ok(Part::Range(found.start as usize, found.slicelength));
        }
        let index: isize = index.extract()?;
        let place = if index < 0 { index + self.length as isize } else { index };
        match usize::try_from(place) {
            Ok(place) if place < self.length => Ok(Part::Byte(place)),
            _ => Err(PyIndexError::new_err("index out of range")),
        }
    }

    fn with<R: Send>(&self, py: Python<'_>, body: impl FnOnce(Window<'_>) -> Result<R, Failure> + Send) -> PyResult<R> {
        self.shared.enter(py, |way| {
            with(way, &self.domain, |memory, tenant| {
                let gone = || Failure::new(failure::GONE, format!("domain `{}` was loaded again", self.domain));
                if tenant == self.tenant { body(memory) } else { Err(gone()) }
            })
        })
    }

    fn read(&self, py: Python<'_>, from: usize, length: usize) -> PyResult<Vec<u8>> {
        self.with(py, |memory| Ok(memory.read(self.pointer.wrapping_add(from as u64), length)?))
    }
}

#[pymethods]
impl View {
    /// Returns the address of the first byte, in the domain's terms.
    #[getter]
    fn pointer(&self) -> u64 {
        self.pointer
    }

    fn __len__(&self) -> usize {
        self.length
    }

    fn __getitem__<'py>(&self, py: Python<'py>, index: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        match self.part(index)? {
            Part::Byte(place) => Ok(self.read(py, place, 1)?[0].into_pyobject(py)?.into_any()),
            Part::Range(from, length) => Ok(PyBytes::new(py, &self.read(py, from, length)?).into_any()),
        }
    }

    fn __setitem__(&self, py: Python<'_>, index: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>) -> PyResult<()> {
        let (from, data) = match self.part(index)? {
            Part::Byte(place) => (place, vec![value.extract::<u8>()?]),
            Part::Range(from, length) => {
                let data = convert::contents(value)?;
                if data.len() != length {
                    return Err(PyValueError::new_err(format!("{} bytes for a slice of {length}", data.len())));
                }
                (from, data.to_vec())
            }
        };
        self.with(py, |mut memory| Ok(memory.write(self.pointer.wrapping_add(from as u64), &data)?))
    }

    fn __delitem__(&self, _index: &Bound<'_, PyAny>) -> PyResult<()> {
        Err(PyTypeError::new_err("memory cannot be removed"))
    }

    fn __bytes__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        Ok(PyBytes::new(py, &self.read(py, 0, self.length)?))
    }

    fn __repr__(&self) -> String {
        format!("<sfi.View of {} bytes of `{}`>", self.length, self.domain)
    }
}

/// A shared region.
#[pyclass(frozen, module = "sfi")]
#[derive(Debug)]
pub struct Region {
    shared: Arc<Shared>,
    name: String,
    length: usize,
}

impl Region {
    /// Finds a shared region.
    pub fn find(py: Python<'_>, shared: &Arc<Shared>, name: &str) -> PyResult<Self> {
        let length = shared.alone(py, |world| Ok(world.region(name)?.len()))?;
        Ok(Self { shared: Arc::clone(shared), name: name.to_owned(), length })
    }
}

#[pymethods]
impl Region {
    fn __len__(&self) -> usize {
        self.length
    }

    /// Copies out of the region.
    fn read<'py>(&self, py: Python<'py>, offset: usize, length: usize) -> PyResult<Bound<'py, PyBytes>> {
        if length > self.length {
            let message = format!("{length} bytes are not in the region `{}`", self.name);
            return Err(Failure::new(failure::BOUNDS, message).raise(py));
        }
        let bytes = self.shared.alone(py, |world| {
            let mut bytes = vec![0; length];
            world.region(&self.name)?.read(offset, &mut bytes)?;
            Ok(bytes)
        })?;
        Ok(PyBytes::new(py, &bytes))
    }

    /// Copies into the region.
    fn write(&self, py: Python<'_>, offset: usize, data: &Bound<'_, PyAny>) -> PyResult<()> {
        let data = convert::contents(data)?;
        self.shared.alone(py, |world| Ok(world.region(&self.name)?.write(offset, &data)?))
    }

    fn __repr__(&self) -> String {
        format!("<sfi.Region `{}` of {} bytes>", self.name, self.length)
    }
}
