//! Worlds: the domains of a manifest.

use crate::failure::{self, Failure};
use crate::function::{Function, seconds};
use crate::host::HostFunction;
use crate::inside::{Inside, Shared};
use crate::memory::{Memory, Region};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use sfi_arbitration::{Arbiter, manifest as table};
use sfi_loader::manifest::{Manifest, Support, arbiter_of, file};
use sfi_loader::{Builder, DomainSpec, Manage, World as Loaded};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// The domains of a manifest, loaded and ready to be called.
#[pyclass(frozen, module = "sfi")]
#[derive(Debug)]
pub struct World {
    shared: Arc<Shared>,
    manifest: Manifest,
    directory: PathBuf,
}

/// The wishes of a host beside the manifest.
struct Wishes<'py> {
    functions: Vec<PyRef<'py, HostFunction>>,
    waits: bool,
    time_limit: Option<Duration>,
    cpu_limit: Option<Duration>,
    timed: bool,
}

impl<'py> Wishes<'py> {
    fn new(
        functions: Vec<PyRef<'py, HostFunction>>,
        threads: &str,
        (time_limit, cpu_limit): (Option<f64>, Option<f64>),
        timed: bool,
    ) -> PyResult<Self> {
        let waits = match threads {
            "refuse" => false,
            "wait" => true,
            other => return Err(PyValueError::new_err(format!("threads: `{other}` is neither `refuse` nor `wait`"))),
        };
        Ok(Self { functions, waits, time_limit: seconds(time_limit)?, cpu_limit: seconds(cpu_limit)?, timed })
    }
}

/// Adds the support code of domains with system calls, and the host functions that answer them.
fn described(manifest: &mut Manifest, directory: &Path) -> Result<Builder, Failure> {
    for domain in manifest.domains.values_mut().filter(|domain| domain.syscalls.is_some()) {
        let objects = vec![sfi_support::library(domain.mode), sfi_support::jumps_object(domain.mode)];
        let archives = vec![sfi_support::contexts_archive(domain.mode)];
        domain.support = Some(Support { objects, archives, own_start: false });
    }
    let mut builder = manifest.build(Loaded::builder(), directory)?;
    for (name, domain) in &manifest.domains {
        let Some(syscalls) = &domain.syscalls else { continue };
        let policy = table::policy(syscalls, directory, manifest.limits.call.map(|limit| limit.0))?;
        let mut arbiter = Arbiter::new(policy, table::descriptors(syscalls, directory)?);
        builder = builder.host_fn(arbiter_of(name), move |cx| arbiter.host_call(cx));
    }
    Ok(builder)
}

impl World {
    fn open(py: Python<'_>, mut manifest: Manifest, directory: PathBuf, wishes: &Wishes<'_>) -> PyResult<Self> {
        let inside = Arc::new(Inside::default());
        let offers: Vec<_> = wishes.functions.iter().map(|function| function.offer(py, &inside)).collect();
        let (time, cpu, timed) = (wishes.time_limit, wishes.cpu_limit, wishes.timed);
        let (manifest, built) = py.detach(|| {
            // Initialisers call host functions, so this thread uses the world already.
            let built = inside.using(|| {
                let mut builder = described(&mut manifest, &directory)?;
                builder = offers.into_iter().fold(builder, |builder, offer| offer(builder));
                builder = if time.is_some() { builder.time_limit(time) } else { builder };
                builder = if cpu.is_some() { builder.cpu_limit(cpu) } else { builder };
                builder = if timed { builder.timed() } else { builder };
                Ok(builder.build()?)
            });
            (manifest, built)
        });
        let world = failure::raised(py, built)?;
        Ok(Self { shared: Arc::new(Shared::new(inside, wishes.waits, world)), manifest, directory })
    }

    /// Returns a domain's description with other objects: those of the manifest, or one object.
    fn again(&self, world: &Loaded, domain: &str, object: Option<&[u8]>) -> Result<DomainSpec, Failure> {
        let mut spec = world.domain(domain)?.spec().without_files();
        let unknown = || Failure::new(failure::NOT_FOUND, format!("the manifest has no domain `{domain}`"));
        let described = self.manifest.domains.get(domain).ok_or_else(unknown)?;
        for object in described.support.iter().flat_map(|support| &support.objects) {
            spec = spec.object("support", *object);
        }
        if let Some(object) = object {
            return Ok(spec.object("object", object.to_vec()));
        }
        let read = |path: &Path| {
            let path = self.directory.join(path);
            file::read(&path).map_err(|e| Failure::new(failure::LOAD, format!("{}: {e}", path.display())))
        };
        for path in &described.objects {
            spec = spec.object(path.display().to_string(), read(path)?);
        }
        for path in &described.archives {
            spec = spec.archive(path.display().to_string(), read(path)?);
        }
        Ok(spec)
    }
}

#[pymethods]
impl World {
    #[new]
    #[pyo3(signature = (manifest, functions = Vec::new(), *, threads = "refuse", time_limit = None, cpu_limit = None, timed = false))]
    fn new(
        py: Python<'_>,
        manifest: PathBuf,
        functions: Vec<PyRef<'_, HostFunction>>,
        threads: &str,
        time_limit: Option<f64>,
        cpu_limit: Option<f64>,
        timed: bool,
    ) -> PyResult<Self> {
        let wishes = Wishes::new(functions, threads, (time_limit, cpu_limit), timed)?;
        let directory = manifest.parent().unwrap_or(Path::new("")).to_owned();
        let manifest = failure::raised(py, Manifest::load(&manifest).map_err(Failure::from))?;
        Self::open(py, manifest, directory, &wishes)
    }

    /// Loads the domains of a manifest's text. Paths in it are relative to `directory`.
    #[staticmethod]
    #[pyo3(signature = (text, functions = Vec::new(), *, directory = PathBuf::new(), threads = "refuse", time_limit = None, cpu_limit = None, timed = false))]
    #[expect(clippy::too_many_arguments, reason = "they have names in Python")]
    fn from_text(
        py: Python<'_>,
        text: &str,
        functions: Vec<PyRef<'_, HostFunction>>,
        directory: PathBuf,
        threads: &str,
        time_limit: Option<f64>,
        cpu_limit: Option<f64>,
        timed: bool,
    ) -> PyResult<Self> {
        let wishes = Wishes::new(functions, threads, (time_limit, cpu_limit), timed)?;
        let manifest = Manifest::parse(text, Path::new("(text)")).map_err(Failure::from);
        Self::open(py, failure::raised(py, manifest)?, directory, &wishes)
    }

    /// Returns the names of the domains.
    #[getter]
    fn domains(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        self.shared.alone(py, |world| Ok(world.domains().map(str::to_owned).collect()))
    }

    /// Finds a function of a domain by its declaration.
    fn function(&self, py: Python<'_>, domain: &str, declaration: &str) -> PyResult<Function> {
        Function::find(py, &self.shared, domain, declaration)
    }

    /// Returns the memory of a domain.
    fn memory(&self, py: Python<'_>, domain: &str) -> PyResult<Memory> {
        Memory::find(py, &self.shared, domain)
    }

    /// Returns a shared region.
    fn region(&self, py: Python<'_>, name: &str) -> PyResult<Region> {
        Region::find(py, &self.shared, name)
    }

    /// Lends a function of the host to a domain. Returns a function pointer for the domain.
    fn lend(&self, py: Python<'_>, domain: &str, function: PyRef<'_, HostFunction>) -> PyResult<u64> {
        let lend = function.lend(py, &self.shared.inside)?;
        Ok(self.shared.alone(py, |world| lend(world, domain))?.0)
    }

    /// Takes a lent function back. Calls of its pointer then lead nowhere.
    fn take_back(&self, py: Python<'_>, domain: &str, name: &str) -> PyResult<()> {
        self.shared.alone(py, |world| Ok(world.take_back(domain, name)?))
    }

    /// Restarts a domain in the state in which it was built.
    fn restart(&self, py: Python<'_>, domain: &str) -> PyResult<()> {
        self.shared.alone(py, |world| {
            world.domain(domain)?;
            Ok(world.restart(domain)?)
        })
    }

    /// Loads a domain again: from the manifest's files, or from one object.
    #[pyo3(signature = (domain, object = None))]
    fn reload(&self, py: Python<'_>, domain: &str, object: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        let object = object.map(crate::convert::contents).transpose()?;
        self.shared.alone(py, |world| {
            let spec = self.again(world, domain, object.as_deref())?;
            Ok(world.reload(spec)?)
        })
    }

    /// Says whether a domain faulted and was not restarted.
    fn is_dead(&self, py: Python<'_>, domain: &str) -> PyResult<bool> {
        self.shared.alone(py, |world| Ok(world.domain(domain)?.is_dead()))
    }

    /// Returns the last fault of a domain as an exception, or `None`.
    fn last_fault<'py>(&self, py: Python<'py>, domain: &str) -> PyResult<Option<Bound<'py, PyAny>>> {
        let fault = self.shared.alone(py, |world| Ok(world.domain(domain)?.last_fault()))?;
        Ok(fault.map(|fault| Failure::from(fault).raise(py).into_value(py).into_bound(py).into_any()))
    }

    /// Runs the finalisers and unmaps everything. Functions, memory and views are of no use then.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.shared.close(py)
    }

    fn __enter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, pyo3::types::PyTuple>) -> PyResult<()> {
        self.shared.close(py)
    }
}
