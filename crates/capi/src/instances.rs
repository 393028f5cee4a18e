//! Further instances of a world's domains. An instance has a name, which every function takes that
//! takes a domain's.

use crate::border::{Result, api, text};
use crate::enter::{Inside, enter, sfi_world};
use crate::error::{BOUNDS, Failure, IN_USE, NOT_FOUND};
use sfi_loader::{Instance, World};
use std::collections::HashMap;
use std::ffi::c_char;

/// Uses a world from outside, and its instances.
///
/// # Safety
/// As for [`enter`].
unsafe fn with<R>(
    world: *const sfi_world,
    body: impl FnOnce(&mut World, &mut HashMap<String, Instance>) -> Result<R>,
) -> Result<R> {
    // SAFETY: see the function's contract. The instances are used by the thread that is in the
    // world, and not within a host function.
    unsafe {
        enter(world, |inside| match inside {
            Inside::World(found) => body(found, &mut *(*world).instances.get()),
            Inside::Host(_) => Err(Failure::new(IN_USE, "not within a host function")),
        })
    }
}

fn known(instances: &HashMap<String, Instance>, name: &str) -> Result<Instance> {
    let unknown = || Failure::new(NOT_FOUND, format!("there is no instance `{name}`"));
    instances.get(name).copied().ok_or_else(unknown)
}

api! {
    /// Makes an instance of a domain.
    fn sfi_world_instantiate(world: *mut sfi_world, domain: *const c_char, name: *mut c_char, size: usize) {
        let domain = text(domain, "domain")?;
        crate::border::place(name, "name")?;
        let made = with(world, |world, instances| {
            world.domain(domain)?;
            let instance = world.instantiate(domain)?;
            let made = world.instance(instance)?.name().to_owned();
            if made.len() >= size {
                world.discard(instance)?;
                return Err(Failure::new(BOUNDS, format!("the name has {} bytes", made.len() + 1)));
            }
            instances.insert(made.clone(), instance);
            Ok(made)
        })?;
        name.cast::<u8>().copy_from_nonoverlapping(made.as_ptr(), made.len());
        name.add(made.len()).write(0);
        Ok(())
    }

    /// Gives an instance back its first state.
    fn sfi_instance_reset(world: *mut sfi_world, name: *const c_char) {
        let name = text(name, "name")?;
        with(world, |world, instances| Ok(world.reset(known(instances, name)?)?))
    }

    /// Discards an instance.
    fn sfi_instance_discard(world: *mut sfi_world, name: *const c_char) {
        let name = text(name, "name")?;
        with(world, |world, instances| {
            world.discard(known(instances, name)?)?;
            instances.remove(name);
            Ok(())
        })
    }
}
