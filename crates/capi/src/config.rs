//! The functions and rules that a host offers to the worlds that it opens.

use crate::border::{Result, api, border, handle, place, text};
use crate::enter::{Inside, Shared, alone, current, enter, sfi_world, shared};
use crate::error::Status;
use crate::error::{Failure, INVALID, c_text};
use crate::function::{sfi_argument, sfi_limits, sfi_value};
use crate::host::{run, sfi_host_call};
use crate::images::{Images, sfi_image_find_fn, sfi_image_keep_fn};
use crate::shape::{Results, Shape};
use crate::sharing::{Order, Turns};
use crate::user::User;
use sfi_loader::interface::Declaration;
use sfi_loader::{Builder, HostCall, HostError, ImageFiles, Received, Returned, TemplateBuilder};
use std::ffi::{c_char, c_int, c_void};
use std::sync::Arc;

// A C++ exception may leave these functions. Rust catches none: it ends the process where it would
// catch a panic, so that no frame of a gate is ever unwound.

/// `sfi_host_fn`
pub type sfi_host_fn =
    Option<unsafe extern "C-unwind" fn(user: *mut c_void, call: *mut sfi_host_call, result: *mut sfi_value) -> Status>;
/// `sfi_serve_fn`
pub type sfi_serve_fn = Option<
    unsafe extern "C-unwind" fn(
        user: *mut c_void,
        call: *mut sfi_host_call,
        arguments: *const sfi_argument,
        result: *mut sfi_value,
    ) -> Status,
>;
/// `sfi_permission_fn`
pub type sfi_permission_fn = Option<
    unsafe extern "C-unwind" fn(
        user: *mut c_void,
        client: *const c_char,
        entry: *const c_char,
        permitted: c_int,
    ) -> c_int,
>;

/// The way to the record of the world that calls a host function.
#[derive(Clone)]
enum Record {
    /// The function belongs to one world.
    Of(Arc<Shared>),
    /// Several worlds share it. The thread knows which one it is in.
    Current,
}

impl Record {
    /// Returns the record.
    ///
    /// # Safety
    /// For a host function that runs, which is in the world.
    unsafe fn get(&self) -> Option<&Shared> {
        match self {
            Record::Of(shared) => Some(shared),
            // SAFETY: the thread is in the announced world whose domain called, and the world
            // lives until the call returns.
            Record::Current => unsafe { current().as_ref() },
        }
    }
}

/// Wraps a function of the host for the loader.
fn plain(
    record: Record,
    function: sfi_host_fn,
    user: User,
    results: Results,
) -> impl Fn(&mut HostCall<'_>) -> std::result::Result<u64, HostError> + Send + Sync + 'static {
    move |cx| {
        // SAFETY: this is a host function that runs.
        let shared = unsafe { record.get() };
        let shared = shared.ok_or_else(|| HostError::new("the world is not the host's"))?;
        let words = run(shared, cx, |call, result| {
            // SAFETY: a function of the host with its own pointer; call and result live until it
            // returns.
            function.map_or(INVALID, |function| unsafe { function(user.get(), call, result) })
        })?;
        let Returned { ints, floats } = results.returned(words);
        cx.set_result_f64(f64::from_bits(floats[0]));
        cx.set_second_result(ints[1], f64::from_bits(floats[1]));
        Ok(ints[0])
    }
}

#[derive(Clone, Debug)]
enum Offer {
    Function(sfi_host_fn),
    Serve(Declaration, sfi_serve_fn),
}

/// `sfi_config`.
#[derive(Debug, Default)]
pub struct sfi_config {
    functions: Vec<(String, Offer, User)>,
    permits: Vec<(String, String)>,
    permission: Option<(sfi_permission_fn, User)>,
    limits: Option<sfi_limits>,
    clock: bool,
    interruptible: bool,
    one_thread: bool,
    order: Option<Order>,
    images: Option<Arc<Images>>,
}

impl sfi_config {
    /// Says whether only the thread that opens a world uses it.
    pub(crate) fn is_of_one_thread(&self) -> bool {
        self.one_thread
    }

    /// Returns the order in which threads wait for a world, if they do.
    pub(crate) fn order(&self) -> Option<Order> {
        self.order
    }

    /// Returns the rules by which threads wait for a world, if they do.
    pub(crate) fn turns(&self) -> Option<Turns> {
        self.order.map(Turns::new)
    }

    /// Adds the config to the description of a template. Its host functions run in several
    /// threads.
    pub(crate) fn apply_to_template(&self, mut builder: TemplateBuilder) -> Result<TemplateBuilder> {
        let limits = self.limits.map(sfi_limits::limits);
        let other = [
            (self.functions.iter().any(|f| matches!(f.1, Offer::Serve(..))), "functions with a declaration"),
            (!self.permits.is_empty() || self.permission.is_some(), "rules for connections"),
            (self.interruptible, "interruptible calls"),
            (self.one_thread, "the promise of one thread"),
            (self.images.is_some(), "images of other processes"),
            (limits.is_some_and(|limits| limits.cpu.is_some()), "a limit of processor time"),
        ];
        if let Some((_, what)) = other.into_iter().find(|(has, _)| *has) {
            return Err(Failure::new(INVALID, format!("a template cannot have {what}")));
        }
        for (name, offer, user) in &self.functions {
            if let Offer::Function(function) = offer {
                builder = builder.host_fn(name, plain(Record::Current, *function, *user, Results::ONE));
            }
        }
        builder = if self.clock { builder.clock() } else { builder };
        Ok(match limits.and_then(|limits| limits.wall) {
            Some(wall) => builder.time_limit(wall),
            None => builder,
        })
    }

    /// Adds the config to the description of a world with lanes. Its host functions run in several
    /// threads.
    pub(crate) fn apply_to_lanes(&self, mut builder: Builder) -> Result<Builder> {
        let other = [
            (self.functions.iter().any(|f| matches!(f.1, Offer::Serve(..))), "functions with a declaration"),
            (self.permission.is_some(), "a function that decides about connections"),
            (self.one_thread, "the promise of one thread"),
            (self.images.is_some(), "images of other processes"),
        ];
        if let Some((_, what)) = other.into_iter().find(|(has, _)| *has) {
            return Err(Failure::new(INVALID, format!("lanes cannot have {what}")));
        }
        for (name, offer, user) in &self.functions {
            if let Offer::Function(function) = offer {
                builder = builder.shared_fn(name, plain(Record::Current, *function, *user, Results::ONE));
            }
        }
        Ok(self.apply_rules(builder))
    }

    /// Adds the whole config to the description of a world.
    pub(crate) fn apply(&self, mut builder: Builder, shared: &Arc<Shared>) -> Builder {
        for (name, offer, user) in &self.functions {
            let (shared, user) = (Arc::clone(shared), *user);
            builder = match offer.clone() {
                Offer::Function(function) => {
                    builder.host_fn(name, plain(Record::Of(shared), function, user, Results::ONE))
                }
                Offer::Serve(declaration, function) => {
                    builder.serve(name, declaration, move |cx, received| {
                        let arguments: Vec<sfi_argument> = received.iter_mut().map(argument).collect();
                        run(&shared, cx, |call, result| {
                            let arguments = arguments.as_ptr();
                            // SAFETY: as above; the buffers live until the call ends and nobody
                            // else uses them.
                            function
                                .map_or(INVALID, |function| unsafe { function(user.get(), call, arguments, result) })
                        })
                        .map(|[word, _]| word)
                    })
                }
            };
        }
        if let Some((Some(permission), user)) = self.permission {
            let shared = Arc::clone(shared);
            builder = builder.permission(move |request| {
                // The permission function may not use the world, because the world's bindings are
                // changing.
                let _closed = shared.closed();
                let (client, entry) = (c_text(request.client), c_text(request.entry));
                let permitted = c_int::from(request.permitted);
                // SAFETY: as above.
                unsafe { permission(user.get(), client.as_ptr(), entry.as_ptr(), permitted) != 0 }
            });
        }
        if let Some(images) = &self.images {
            builder = builder.image_files(Arc::clone(images) as Arc<dyn ImageFiles>);
        }
        self.apply_rules(builder)
    }

    /// Adds what is no function: the clock, rules for connections, limits.
    fn apply_rules(&self, mut builder: Builder) -> Builder {
        if self.clock {
            builder = builder.clock();
        }
        if self.interruptible {
            builder = builder.interruptible();
        }
        for (client, entry) in &self.permits {
            builder = builder.permit(client, entry);
        }
        if let Some(limits) = self.limits.map(sfi_limits::limits) {
            builder = builder.timed();
            builder = if limits.wall.is_some() { builder.time_limit(limits.wall) } else { builder };
            builder = if limits.cpu.is_some() { builder.cpu_limit(limits.cpu) } else { builder };
        }
        builder
    }
}

fn argument(received: &mut Received) -> sfi_argument {
    match received {
        Received::Word(word) => sfi_argument { value: sfi_value { u: *word }, data: std::ptr::null_mut(), size: 0 },
        Received::Elements(elements) => {
            let (data, size) = (elements.as_mut_ptr().cast(), elements.len());
            sfi_argument { value: sfi_value { u: 0 }, data, size }
        }
    }
}

/// Borrows the config for a change.
///
/// # Safety
/// Null, or a config that nobody else uses now.
unsafe fn change<'c>(config: *mut sfi_config) -> Result<&'c mut sfi_config> {
    let config = place(config, "config")?;
    // SAFETY: see the function's contract.
    Ok(unsafe { &mut *config })
}

/// Reads the name of a host function and checks that there is a function.
///
/// # Safety
/// As for [`text`].
unsafe fn named(name: *const c_char, there: bool) -> Result<String> {
    if !there {
        return Err(Failure::new(INVALID, "function is NULL"));
    }
    // SAFETY: see the function's contract.
    Ok(unsafe { text(name, "name") }?.to_owned())
}

/// Returns a signature in the loader's form, and the function that has it, for one world.
///
/// # Safety
/// As for [`text`] and [`shared`].
unsafe fn lendable(
    world: *const sfi_world,
    signature: *const c_char,
    function: sfi_host_fn,
    user: *mut c_void,
) -> Result<(String, impl Fn(&mut HostCall<'_>) -> std::result::Result<u64, HostError> + Send + Sync + 'static)> {
    // SAFETY: see the function's contract.
    let shape = Shape::parse(unsafe { text(signature, "signature") }?)?;
    // SAFETY: see the function's contract.
    let record = Record::Of(unsafe { shared(world) }?);
    Ok((shape.lowered(), plain(record, function, User(user), shape.results())))
}

/// Makes a config that offers nothing.
#[unsafe(no_mangle)]
pub extern "C" fn sfi_config_new() -> *mut sfi_config {
    Box::into_raw(Box::default())
}

/// Frees a config.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sfi_config_free(config: *mut sfi_config) {
    if !config.is_null() {
        // SAFETY: from `sfi_config_new`; the crate's documentation states the host's duties.
        drop(unsafe { Box::from_raw(config) });
    }
}

/// Sets the limits of every call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sfi_config_limits(
    config: *mut sfi_config,
    limits: sfi_limits,
    error: *mut *mut crate::sfi_error,
) -> Status {
    // SAFETY: the crate's documentation states the host's duties.
    unsafe {
        border(error, || {
            change(config)?.limits = Some(limits);
            Ok(())
        })
    }
}

api! {
    /// Offers a function.
    fn sfi_config_function(config: *mut sfi_config, name: *const c_char, function: sfi_host_fn, user: *mut c_void) {
        let name = named(name, function.is_some())?;
        change(config)?.functions.push((name, Offer::Function(function), User(user)));
        Ok(())
    }

    /// Offers a function with a declaration.
    fn sfi_config_serve(config: *mut sfi_config, name: *const c_char, declaration: *const c_char, function: sfi_serve_fn, user: *mut c_void) {
        let name = named(name, function.is_some())?;
        let declaration = text(declaration, "declaration")?.parse()?;
        change(config)?.functions.push((name, Offer::Serve(declaration, function), User(user)));
        Ok(())
    }

    /// Adds a rule about connections.
    fn sfi_config_permit(config: *mut sfi_config, client: *const c_char, entry: *const c_char) {
        let rule = (text(client, "client")?.to_owned(), text(entry, "entry")?.to_owned());
        change(config)?.permits.push(rule);
        Ok(())
    }

    /// Lets domains that ask for it read the processor's clock.
    fn sfi_config_clock(config: *mut sfi_config) {
        change(config)?.clock = true;
        Ok(())
    }

    /// Lets signal handlers of the host end calls.
    fn sfi_config_interruptible(config: *mut sfi_config) {
        change(config)?.interruptible = true;
        Ok(())
    }

    /// Keeps all threads but the one that opens a world out of it.
    fn sfi_config_one_thread(config: *mut sfi_config) {
        change(config)?.one_thread = true;
        Ok(())
    }

    /// Takes images from the host's other processes, and gives them images.
    fn sfi_config_images(config: *mut sfi_config, find: sfi_image_find_fn, keep: sfi_image_keep_fn, user: *mut c_void) {
        if find.is_none() || keep.is_none() {
            return Err(Failure::new(INVALID, "find or keep is NULL"));
        }
        change(config)?.images = Some(Arc::new(Images { find, keep, user: User(user) }));
        Ok(())
    }

    /// Sets the function that decides about connections.
    fn sfi_config_permission(config: *mut sfi_config, function: sfi_permission_fn, user: *mut c_void) {
        change(config)?.permission = function.is_some().then_some((function, User(user)));
        Ok(())
    }
}

api! {
    /// Chooses what threads do that find a world in use.
    fn sfi_config_sharing(config: *mut sfi_config, sharing: c_int) {
        change(config)?.order = match sharing {
            REFUSE => None,
            LOCK => Some(Order::Any),
            QUEUE => Some(Order::Queue),
            _ => return Err(Failure::new(INVALID, "sharing is SFI_SHARE_REFUSE, SFI_SHARE_LOCK or SFI_SHARE_QUEUE")),
        };
        Ok(())
    }

    /// Lends a function of the host to a domain.
    fn sfi_world_lend(world: *mut sfi_world, domain: *const c_char, name: *const c_char, signature: *const c_char, function: sfi_host_fn, user: *mut c_void, pointer: *mut u64) {
        let (name, to) = (named(name, function.is_some())?, place(pointer, "pointer")?);
        let domain = text(domain, "domain")?;
        let (signature, lent) = lendable(world, signature, function, user)?;
        let lent = alone(world, |world| Ok(world.lend(domain, &name, &signature, lent)?))?;
        to.write(lent.0);
        Ok(())
    }

    /// Takes a function back.
    fn sfi_world_take_back(world: *mut sfi_world, domain: *const c_char, name: *const c_char) {
        let (domain, name) = (text(domain, "domain")?, text(name, "name")?);
        alone(world, |world| Ok(world.take_back(domain, name)?))
    }

    /// Registers a callback.
    fn sfi_callback_register(world: *mut sfi_world, domain: *const c_char, name: *const c_char, signature: *const c_char, function: sfi_host_fn, user: *mut c_void, pointer: *mut u64) {
        let (name, to) = (named(name, function.is_some())?, place(pointer, "pointer")?);
        let domain = text(domain, "domain")?;
        let (signature, lent) = lendable(world, signature, function, user)?;
        let lent = enter(world, |inside| match inside {
            Inside::World(world) => Ok(world.lend_reentrant(domain, &name, &signature, lent)?),
            Inside::Host(call) => Ok(call.lend_reentrant(domain, &name, &signature, lent)?),
        })?;
        to.write(lent.0);
        Ok(())
    }

    /// Unregisters a callback.
    fn sfi_callback_unregister(world: *mut sfi_world, domain: *const c_char, name: *const c_char) {
        let (domain, name) = (text(domain, "domain")?, text(name, "name")?);
        enter(world, |inside| match inside {
            Inside::World(world) => Ok(world.forget_lent(domain, name)?),
            Inside::Host(call) => Ok(call.forget_lent(domain, name)?),
        })
    }
}

// As in sfi.h.
const REFUSE: c_int = 0;
const LOCK: c_int = 1;
const QUEUE: c_int = 2;

/// Borrows the config if there is one.
///
/// # Safety
/// Null, or a config that nobody changes during `'c`.
pub(crate) unsafe fn config_or_none<'c>(config: *const sfi_config) -> Result<Option<&'c sfi_config>> {
    // SAFETY: see the function's contract.
    if config.is_null() { Ok(None) } else { unsafe { handle(config, "config") }.map(Some) }
}
