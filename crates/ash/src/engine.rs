//! The receive engine: takes messages from a back end, finds their handlers, runs them, and carries
//! out their wishes at the commit.

use crate::account::{Account, Ticks};
use crate::back::Backend;
use crate::call;
use crate::handler::{Ended, Handler};
use crate::head::{Frame, Head};
use crate::tree::{Tree, TreeError};
use sfi_loader::{Fault, View};
use std::collections::BTreeMap;
use std::io;
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::{Duration, Instant};

/// Messages of one turn. After them the engine looks at commands and ticks.
pub const TURN: usize = 64;
/// The length of a tick unless it is set.
pub const DEFAULT_TICK: Duration = Duration::from_millis(10);

/// The reason why a message goes the normal way.
#[derive(Debug)]
pub enum Reason<'a> {
    /// No filter matches.
    NoHandler,
    /// The handler declined it (voluntary abort).
    Declined,
    /// The handler faulted or took too long (involuntary abort). Its writes are undone.
    Faulted(&'a Fault),
    /// The owner's account is empty: the message is left for later.
    Deferred,
    /// The handler faulted too often, or cannot be entered.
    Suspended,
}

/// A message that goes the normal way.
#[derive(Debug)]
pub struct Message<'a> {
    /// The handler that could have taken it.
    pub handler: Option<&'a str>,
    /// The reason.
    pub reason: Reason<'a>,
    view: &'a View,
    frame: Frame,
}

impl Message<'_> {
    /// Copies the message.
    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.frame.length];
        self.view.read(self.frame.at, &mut bytes).expect("the frame lies in the memory");
        bytes
    }
}

/// The application side of an engine.
pub trait Host {
    /// Takes a message on the normal way.
    fn normal(&mut self, message: &Message<'_>);

    /// Wakes the application of a handler, which committed.
    fn wake(&mut self, handler: &str, value: u32);
}

/// The fates of a handler's messages, counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Messages that its filter chose.
    pub messages: u64,
    /// Messages that it took.
    pub committed: u64,
    /// Messages that it declined.
    pub declined: u64,
    /// Involuntary aborts.
    pub faulted: u64,
    /// Messages that were left for later, because the account was empty.
    pub deferred: u64,
    /// Messages that did not reach it, because it was suspended.
    pub suspended: u64,
    /// Frames that it sent.
    pub sent: u64,
    /// Frames of it that the back end lost.
    pub lost: u64,
}

struct Slot {
    handler: Handler,
    counts: Counts,
    /// The owner's place in the accounts.
    account: usize,
}

type Answer = Sender<Result<(), TreeError>>;

enum Command {
    Install(Box<Handler>, Answer),
    Remove(String, Answer),
}

/// A remote control of an engine, for any thread. Handlers are verified and linked on the thread
/// that makes them. The engine takes them over between two messages.
#[derive(Clone, Debug)]
pub struct Control {
    commands: Sender<Command>,
}

impl Control {
    /// Adds a handler, or puts it in the place of the one with its name. The result arrives once
    /// the engine has done so.
    pub fn install(&self, handler: Handler) -> Receiver<Result<(), TreeError>> {
        self.command(|answer| Command::Install(Box::new(handler), answer))
    }

    /// Removes a handler. Its messages go the normal way then.
    pub fn remove(&self, name: impl Into<String>) -> Receiver<Result<(), TreeError>> {
        self.command(|answer| Command::Remove(name.into(), answer))
    }

    fn command(&self, make: impl FnOnce(Answer) -> Command) -> Receiver<Result<(), TreeError>> {
        let (answer, answered) = mpsc::channel();
        // An engine that is gone drops the answer's sender, which the receiver reports.
        let _ = self.commands.send(make(answer));
        answered
    }
}

/// A receive engine.
pub struct Engine<B> {
    backend: B,
    slots: Vec<Slot>,
    tree: Tree,
    accounts: Vec<(String, Account)>,
    quotas: BTreeMap<String, u32>,
    ticks: Ticks,
    spin: Duration,
    frames: Vec<Frame>,
    commands: Receiver<Command>,
    control: Control,
    /// Messages without a handler.
    pub unclaimed: u64,
    /// Frames that the back end lost after it took them. They count as sent by their handlers.
    pub undelivered: u64,
}

impl<B: std::fmt::Debug> std::fmt::Debug for Engine<B> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").field("backend", &self.backend).finish_non_exhaustive()
    }
}

impl<B: Backend> Engine<B> {
    /// Makes an engine without handlers. `quotas` are the messages per tick of each owner. Owners
    /// that are not named have no limit.
    pub fn new(backend: B, tick: Duration, quotas: BTreeMap<String, u32>) -> Self {
        let (sender, commands) = mpsc::channel();
        Self {
            backend,
            slots: Vec::new(),
            tree: Tree::new([]).expect("no filters"),
            accounts: Vec::new(),
            quotas,
            ticks: Ticks::new(tick),
            spin: Duration::ZERO,
            frames: Vec::with_capacity(TURN),
            commands,
            control: Control { commands: sender },
            unclaimed: 0,
            undelivered: 0,
        }
    }

    /// Returns a remote control.
    pub fn control(&self) -> Control {
        self.control.clone()
    }

    /// Returns the back end.
    pub fn backend(&mut self) -> &mut B {
        &mut self.backend
    }

    /// Sets the time for which [`Engine::wait`] polls before it blocks. A message that comes
    /// meanwhile costs no wake-up of this thread. None by default.
    pub fn set_spin(&mut self, spin: Duration) {
        self.spin = spin;
    }

    /// Adds a handler, or puts it in the place of the one with its name.
    ///
    /// # Errors
    /// [`TreeError`]. The engine is as before then.
    pub fn install(&mut self, handler: Handler) -> Result<(), TreeError> {
        let name = handler.spec().name.clone();
        let others = self.slots.iter().map(|slot| &slot.handler).filter(|other| other.spec().name != name);
        let mut order: Vec<&Handler> = others.chain([&handler]).collect();
        sort(&mut order);
        let tree = Tree::new(order.iter().map(|handler| &handler.spec().filter))?;
        self.slots.retain(|slot| slot.handler.spec().name != name);
        let account = self.account(&handler.spec().owner.clone());
        self.slots.push(Slot { handler, counts: Counts::default(), account });
        self.order(tree);
        Ok(())
    }

    /// Removes a handler.
    ///
    /// # Errors
    /// [`TreeError`]. The engine is as before then.
    pub fn remove(&mut self, name: &str) -> Result<(), TreeError> {
        let mut order: Vec<&Handler> =
            self.slots.iter().map(|slot| &slot.handler).filter(|handler| handler.spec().name != name).collect();
        sort(&mut order);
        let tree = Tree::new(order.iter().map(|handler| &handler.spec().filter))?;
        self.slots.retain(|slot| slot.handler.spec().name != name);
        self.order(tree);
        Ok(())
    }

    /// Puts the handlers in the order of a tree's filters.
    fn order(&mut self, tree: Tree) {
        self.slots.sort_by(|a, b| key(&a.handler).cmp(&key(&b.handler)));
        self.tree = tree;
    }

    /// Finds or opens an owner's account.
    fn account(&mut self, owner: &str) -> usize {
        if let Some(found) = self.accounts.iter().position(|(name, _)| name == owner) {
            return found;
        }
        let quota = self.quotas.get(owner).copied().unwrap_or(u32::MAX);
        self.accounts.push((owner.to_owned(), Account::new(quota)));
        self.accounts.len() - 1
    }

    /// Returns the handlers and their counts, in the order in which their filters are asked.
    pub fn counts(&self) -> impl Iterator<Item = (&str, Counts)> {
        self.slots.iter().map(|slot| (slot.handler.spec().name.as_str(), slot.counts))
    }

    /// Returns a handler.
    pub fn handler(&self, name: &str) -> Option<&Handler> {
        self.slots.iter().map(|slot| &slot.handler).find(|handler| handler.spec().name == name)
    }

    /// Returns the decision tree as text.
    pub fn tree(&self) -> String {
        let names: Vec<&str> = self.slots.iter().map(|slot| slot.handler.spec().name.as_str()).collect();
        self.tree.text(&names)
    }

    /// Handles the messages that have arrived, at most [`TURN`]. Returns their number.
    ///
    /// # Errors
    /// The operating system's.
    pub fn poll(&mut self, host: &mut impl Host) -> io::Result<usize> {
        self.obey();
        let mut frames = std::mem::take(&mut self.frames);
        frames.clear();
        let received = self.backend.receive(TURN, &mut frames);
        if received.is_ok() && !frames.is_empty() {
            self.tick();
        }
        for frame in &frames {
            self.deliver(*frame, host);
            self.backend.release(*frame);
        }
        let count = frames.len();
        self.frames = frames;
        let flushed = received.and_then(|()| self.backend.flush());
        self.undelivered += self.backend.lost();
        flushed.map(|()| count)
    }

    /// Waits for messages, and handles them.
    ///
    /// # Errors
    /// The operating system's.
    pub fn wait(&mut self, host: &mut impl Host, time: Duration) -> io::Result<usize> {
        let spin = self.spin.min(time);
        let start = (!spin.is_zero()).then(Instant::now);
        loop {
            match self.poll(host)? {
                0 if start.is_some_and(|start| start.elapsed() < spin) => std::hint::spin_loop(),
                0 if self.backend.wait(time - spin)? => return self.poll(host),
                count => return Ok(count),
            }
        }
    }

    fn tick(&mut self) {
        let ended = self.ticks.ended(Instant::now());
        if ended > 0 {
            self.accounts.iter_mut().for_each(|(_, account)| account.refill(ended));
        }
    }

    /// Carries out the commands that arrived.
    fn obey(&mut self) {
        while let Ok(command) = self.commands.try_recv() {
            let (done, answer) = match command {
                Command::Install(handler, answer) => (self.install(*handler), answer),
                Command::Remove(name, answer) => (self.remove(&name), answer),
            };
            // Nobody waits for the answer if the receiver was dropped.
            let _ = answer.send(done);
        }
    }

    /// Hands one message to its handler, or on.
    fn deliver(&mut self, frame: Frame, host: &mut impl Host) {
        let view = self.backend.view();
        let head = Head::read(view, frame);
        let found = head.as_ref().and_then(|head| self.tree.find(head));
        let (Some(head), Some(index)) = (head, found) else {
            self.unclaimed += 1;
            return host.normal(&Message { handler: None, reason: Reason::NoHandler, view, frame });
        };
        let Slot { handler, counts, account } = &mut self.slots[index];
        let account = &mut self.accounts[*account].1;
        counts.messages += 1;
        let on = |host: &mut dyn Host, handler: &Handler, reason| {
            host.normal(&Message { handler: Some(&handler.spec().name), reason, view, frame });
        };
        if handler.spec().faults.is_some_and(|most| counts.faulted >= most) {
            counts.suspended += 1;
            return on(host, handler, Reason::Suspended);
        }
        if !account.pay() {
            counts.deferred += 1;
            return on(host, handler, Reason::Deferred);
        }
        let ended = handler.run(view, frame, head, self.backend.longest());
        match ended {
            Ended::Commit => {
                counts.committed += 1;
                commit(&mut self.backend, handler, counts, host);
            }
            Ended::Decline => {
                counts.declined += 1;
                on(host, handler, Reason::Declined);
            }
            Ended::Fault(fault) => {
                counts.faulted += 1;
                account.charge();
                on(host, handler, Reason::Faulted(&fault));
            }
            Ended::Unready(_) => {
                counts.suspended += 1;
                on(host, handler, Reason::Suspended);
            }
        }
    }
}

/// Carries out the wishes of a handler that committed.
fn commit(backend: &mut impl Backend, handler: &Handler, counts: &mut Counts, host: &mut impl Host) {
    // A host that is woken may load or run other handlers on this thread.
    let out = call::take();
    for frame in out.frames() {
        match backend.send(frame) {
            Ok(()) => counts.sent += 1,
            Err(_) => counts.lost += 1,
        }
    }
    out.wakes.iter().for_each(|value| host.wake(&handler.spec().name, *value));
    call::give_back(out);
}

/// Returns the key by which handlers are asked.
fn key(handler: &Handler) -> (i64, i64, &str) {
    let spec = handler.spec();
    (-i64::from(spec.priority), -i64::from(spec.filter.bits()), &spec.name)
}

fn sort(handlers: &mut [&Handler]) {
    handlers.sort_by(|a, b| key(a).cmp(&key(b)));
}
