//! Domains that are loaded once and instantiated often. Each instance is a world of its own, so a
//! host can use them in several threads.

use crate::gate::ids::DomainId;
use crate::link::image::Image;
use crate::spec::DomainSpec;
use crate::vm::space::La57;
use crate::world::builder::Builder;
use crate::world::calls::host_call::{HostCall, SharedFn};
use crate::world::error::{BuildError, HostError};
use crate::world::held::World;
use std::sync::Arc;
use std::time::Duration;

/// A domain that was verified, linked and sealed. It is cheap to clone and usable from any thread.
#[derive(Clone)]
pub struct Template {
    parts: Arc<Parts>,
}

struct Parts {
    spec: DomainSpec,
    hosts: Vec<(String, SharedFn)>,
    time_limit: Option<Duration>,
    la57: La57,
    clock: bool,
    image: Arc<Image>,
}

impl std::fmt::Debug for Template {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Template").field("domain", &self.parts.spec.name).finish_non_exhaustive()
    }
}

/// Describes a [`Template`].
pub struct TemplateBuilder {
    spec: DomainSpec,
    hosts: Vec<(String, SharedFn)>,
    time_limit: Option<Duration>,
    la57: La57,
    clock: bool,
}

impl std::fmt::Debug for TemplateBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TemplateBuilder").field("spec", &self.spec).finish_non_exhaustive()
    }
}

impl TemplateBuilder {
    /// Offers a host function to every instance. Several threads may run it at once.
    #[must_use]
    pub fn host_fn(
        mut self,
        name: impl Into<String>,
        function: impl Fn(&mut HostCall<'_>) -> Result<u64, HostError> + Send + Sync + 'static,
    ) -> Self {
        self.hosts.push((name.into(), Arc::new(function)));
        self
    }

    /// Sets the time limit of calls, see [`Builder::time_limit`].
    #[must_use]
    pub fn time_limit(mut self, limit: impl Into<Option<Duration>>) -> Self {
        self.time_limit = limit.into();
        self
    }

    /// Sets the address space of windows, see [`Builder::la57`].
    #[must_use]
    pub fn la57(mut self, la57: La57) -> Self {
        self.la57 = la57;
        self
    }

    /// Lets the domain read the processor's clock, see [`Builder::clock`].
    #[must_use]
    pub fn clock(mut self) -> Self {
        self.clock = true;
        self
    }

    /// Verifies, links and seals the domain.
    ///
    /// # Errors
    /// As for [`Builder::build`].
    pub fn build(self) -> Result<Template, BuildError> {
        let Self { spec, hosts, time_limit, la57, clock } = self;
        let first = describe(&spec, &hosts, time_limit, la57, clock).build()?;
        let image = first.image(DomainId::FIRST);
        Ok(Template { parts: Arc::new(Parts { spec, hosts, time_limit, la57, clock, image }) })
    }
}

fn describe(
    spec: &DomainSpec,
    hosts: &[(String, SharedFn)],
    time_limit: Option<Duration>,
    la57: La57,
    clock: bool,
) -> Builder {
    let builder = World::builder().domain(spec.clone()).time_limit(time_limit).la57(la57);
    let builder = if clock { builder.clock() } else { builder };
    hosts.iter().fold(builder, |builder, (name, function)| {
        let function = Arc::clone(function);
        builder.host_fn(name.clone(), move |call| function(call))
    })
}

impl Template {
    /// Describes a template of this domain, whose imports must be host functions.
    pub fn builder(spec: DomainSpec) -> TemplateBuilder {
        TemplateBuilder { spec, hosts: Vec::new(), time_limit: None, la57: La57::Never, clock: false }
    }

    /// Returns the domain's name, which is that of every instance.
    pub fn name(&self) -> &str {
        &self.parts.spec.name
    }

    /// Says whether all instances run the same pages of text. See
    /// [`crate::DomainRef::shares_text`].
    pub fn shares_text(&self) -> bool {
        self.parts.image.shares_text()
    }

    /// Makes a fresh instance at a fresh random place: a world with this one domain. Nothing is
    /// verified or linked again, except text that cannot be shared.
    ///
    /// # Errors
    /// [`BuildError::Map`], [`BuildError::Map`], [`BuildError::Initialiser`].
    pub fn instance(&self) -> Result<World, BuildError> {
        let mut world = self.raw()?;
        world.initialise(DomainId::FIRST)?;
        Ok(world)
    }

    /// Makes a fresh instance whose initialisers have not run yet.
    pub(crate) fn raw(&self) -> Result<World, BuildError> {
        let Parts { spec, hosts, time_limit, la57, clock, image } = &*self.parts;
        describe(spec, hosts, *time_limit, *la57, *clock).prepared(Arc::clone(image)).build()
    }
}
