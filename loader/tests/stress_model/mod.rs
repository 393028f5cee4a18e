//! The stress suite's domains, and their expected answers.

pub mod signals;

use crate::common::{CALL_RAX, assemble, function};
use sfi_loader::{
    Access, CallError, DomainSpec, Entry, HostError, Import, Mode, Pool, Restart, Server, Status, Template, Trust,
    World,
};
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Domains of a world.
pub const RING: usize = 8;
/// Instances of the pool.
pub const POOLED: usize = 4;
/// Instances of the server.
pub const SERVERS: usize = 2;
pub const SIGNATURE: &str = "(int, int, int) -> int";
/// A caller's result when its callee failed.
pub const FAIL: u64 = -5_i64 as u64;
/// The argument at which `tell` panics.
pub const PANIC: u64 = -0x5eed_i64 as u64;
/// Domains die in the ways 1 to this number, or in the two ways below.
pub const WAYS: u64 = 4;
pub const OVERSTAY: u64 = 5;
pub const MAKE_PANIC: u64 = 6;

pub static COUNTS: [AtomicU64; 9] = [const { AtomicU64::new(0) }; 9];

/// The events of a run, for the report.
#[derive(Clone, Copy, Debug)]
pub enum Event {
    Fault,
    Timeout,
    Panic,
    Restart,
    Reload,
    Unbind,
    Buffers,
    Instance,
    Lease,
}

/// All events.
pub const EVENTS: [Event; 9] = [
    Event::Fault,
    Event::Timeout,
    Event::Panic,
    Event::Restart,
    Event::Reload,
    Event::Unbind,
    Event::Buffers,
    Event::Instance,
    Event::Lease,
];

pub fn count(event: Event) {
    COUNTS[event as usize].fetch_add(1, Relaxed);
}

/// Returns the number that the domain at a place of the ring adds to results. It shows which domain
/// computed them.
pub fn key(place: usize, version: usize) -> u64 {
    1000 * (place as u64 + 1) + version as u64
}

/// Most values of a buffer, and the number of values at which the domain that sums them up dies.
pub const VALUES: u64 = 64;
pub const DEADLY: u64 = 13;
/// The new total is `3 * total` plus the values plus a key. The result is the number of values.
pub const SUM: &str = "u64 sum(in u64 values[count], u64 count, inout u64 total[1])";

/// Computes the new total of `sum`.
pub fn summed(place: usize, version: usize, values: &[u64], total: u64) -> u64 {
    values.iter().fold(total.wrapping_mul(3).wrapping_add(key(place, version)), |sum, value| sum.wrapping_add(*value))
}

/// Assembles a domain of the ring. `chain`, `ping` and `pong(n, x, way)` pass the call on n times.
/// The last one works on its state or dies. `ask` goes through the host.
pub fn object(place: usize, version: usize) -> Vec<u8> {
    let key = key(place, version);
    let pass = |name: &str, next: &str| {
        function(
            name,
            &format!(
                "lea -16(%r15),%r15\nmov %r12,%gs:(%r15d)\nmov %rsi,%r12\ntest %rdi,%rdi\njz 1f\ndec %rdi\nlea 1(%rsi,%rsi,2),%rsi\n\
                 call {next}\nadd %r12,%rax\njmp 2f\n1:\ntest %rdx,%rdx\njnz 3f\nmov %rsi,%rdi\ncall tell\nimul $31,state(%rip),%rcx\n\
                 add %rcx,%rax\nmov %rax,%gs:state(%eip)\n2:\nadd ${key},%rax\nmov %gs:(%r15d),%r12\nlea 16(%r15),%r15\nret\n\
                 3:\nmov %rdx,%rdi\ncall die\nud2"
            ),
        )
    };
    let die = "cmp $2,%rdi\nje 2f\ncmp $3,%rdi\nje 3f\ncmp $4,%rdi\nje 4f\ncmp $5,%rdi\nje 5f\ncmp $6,%rdi\nje 6f\nud2\n\
               2:\nxor %eax,%eax\nmov %rax,%gs:(%eax)\nud2\n3:\nxor %edx,%edx\nxor %ecx,%ecx\nmov $1,%eax\ndiv %ecx\nud2\n\
               4:\ncall die\nret\n5:\njmp 5b\n6:\nmov $-0x5eed,%rdi\ncall tell\nud2";
    let text = pass("chain", "up")
        + &pass("ping", "to_pong")
        + &pass("pong", "to_ping")
        + &function("die", die)
        + &function(
            "ask",
            &format!(
                "mov %rdx,%rcx\nmov %rsi,%rdx\nmov %rdi,%rsi\nlea chain(%rip),%rdi\ncall back\nadd ${key},%rax\nret"
            ),
        )
        + &function("through", &format!("mov %rdi,%rax\nmov %rsi,%rdi\nmov %rdx,%rsi\nmov %rcx,%rdx\n{CALL_RAX}ret"))
        + &function("scale", "mulsd %xmm1,%xmm0\nret")
        + &function("float", "addsd %xmm1,%xmm0\ncall to_scale\nret")
        + &function("put", "lea buf(%rip),%rax\nlea (%rax,%rdi,8),%rax\nmov %rsi,%gs:(%eax)\nxor %eax,%eax\nret")
        + &function("get", "lea buf(%rip),%rax\nmov %gs:(%eax,%edi,8),%rax\nret")
        + &function("error", "mov __sfi_error(%rip),%eax\nmovl $0,%gs:__sfi_error(%eip)\nret")
        + &function(
            "sum",
            &format!(
                "cmp ${DEADLY},%rsi\nje 3f\nimul $3,%gs:(%edx),%rax\nadd ${key},%rax\nmov %rsi,%rcx\n1:\ntest %rcx,%rcx\njz 2f\n\
                 dec %rcx\nadd %gs:(%edi,%ecx,8),%rax\njmp 1b\n2:\nmov %rax,%gs:(%edx)\nmov %rsi,%rax\nret\n3:\nud2"
            ),
        )
        + &function("gather", "mov %rdi,%rsi\nlea values(%rip),%rdi\nlea total(%rip),%rdx\njmp to_sum")
        + &format!(
            ".data\nstate: .quad 7\n.balign 16\n.globl values,total\nvalues: .skip 8*{VALUES}\ntotal: .quad 0\n"
        );
    assemble(&text)
}

pub fn name(place: usize) -> String {
    format!("d{}", place % RING)
}

/// Objects by place and version.
pub type Objects = [[Vec<u8>; 2]; RING];

pub fn spec(objects: &Objects, place: usize, version: usize) -> DomainSpec {
    let import = |import: Import| import.on_fault(FAIL as i64).trust(Trust::ALL[place % 3]);
    let to = |to: usize, what: &str| import(Import::domain(name(to), what));
    DomainSpec::new(name(place))
        .memory(1 << 16)
        .stack(1 << 16)
        .mode(if (place + version).is_multiple_of(2) { Mode::Write } else { Mode::Full })
        .object("d.o", objects[place][version].clone())
        .registers("chain", Entry::function("chain").signature(SIGNATURE))
        .import("up", import(Import::entry(format!("{}.chain", name(place + 1)))))
        .import("to_pong", to(place + 1, "pong").signature(SIGNATURE))
        .import("to_ping", to(place + RING - 1, "ping").signature(SIGNATURE))
        .import("to_scale", to(place + 1, "scale").signature("(float, float) -> float"))
        .import("to_sum", to(place + 1, "sum").interface(SUM.parse().unwrap()))
        .import("tell", Import::host("tell").signature("(int) -> int"))
        .import("back", Import::host("back").signature("(int, int, int, int) -> int"))
        .shared("buf", "region", Access::ReadWrite)
        .spare_bindings(1)
        .restart(if place == RING - 1 { Restart::Always } else { Restart::Never })
}

pub fn tell(x: u64) -> Result<u64, HostError> {
    if x == PANIC {
        resume_unwind(Box::new("stress"));
    }
    Ok(x ^ 0x55)
}

pub fn build(objects: &Objects) -> World {
    let builder = World::builder().region("region", 4096).permit("*", "*").timed();
    let builder = (0..RING).fold(builder, |b, place| b.domain(spec(objects, place, 0)));
    let back = |cx: &mut sfi_loader::HostCall<'_>| {
        let chain = cx.function::<fn(u64, u64, u64) -> u64>(cx.arg(0))?;
        let arguments = (cx.arg(1), cx.arg(2), cx.arg(3));
        match chain.call(cx, arguments) {
            Ok(value) => Ok(value ^ 7),
            Err(CallError::Fault(_)) => Ok(77),
            Err(error) => panic!("{error}"),
        }
    };
    builder.host_fn("tell", |cx| tell(cx.arg(0))).host_fn("back", back).build().unwrap()
}

/// Makes the server of all: `work(x, die)`.
fn worker() -> DomainSpec {
    let text = "test %rsi,%rsi\njnz 1f\ncall tell\nimul $31,state(%rip),%rcx\nadd %rcx,%rax\nmov %rax,%gs:state(%eip)\nret\n1:\nud2";
    let text = function("work", text) + ".data\nstate: .quad 7\n";
    let spec = DomainSpec::new("worker").memory(1 << 16).stack(1 << 16).object("p.o", assemble(&text)).mode(Mode::Full);
    spec.import("tell", Import::host("tell").signature("(int) -> int"))
}

/// Makes instances that are as new for each user.
pub fn pool() -> Pool {
    let template = Template::builder(worker()).host_fn("tell", |cx| tell(cx.arg(0))).build().unwrap();
    Pool::new(&template, POOLED).unwrap()
}

/// Makes instances that keep the state that their last user left.
pub fn server() -> Server {
    let spec = worker();
    let world = || World::builder().domain(spec.clone()).host_fn("tell", |cx| tell(cx.arg(0))).build().unwrap();
    Server::new((0..SERVERS).map(|_| world()).collect()).most_waiting(3)
}

/// The ways in which a call does not return.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Stop {
    /// The callee died.
    Died,
    /// The domain had died when its own callee returned.
    Below,
    /// The callee was dead before.
    Dead,
    Panic,
}

#[derive(Clone, Copy, Debug)]
pub enum Path {
    Ring,
    Ping,
    Pong,
}

/// The expected state of a world's domains.
#[derive(Debug)]
pub struct Model {
    pub state: [u64; RING],
    pub version: [usize; RING],
    pub dead: [bool; RING],
    pub error: [Status; RING],
    pub bound: [bool; RING],
    pub active: [u32; RING],
    pub shared: [u64; 16],
}

impl Model {
    pub fn reborn(&mut self, place: usize) {
        (self.state[place], self.dead[place], self.error[place]) = (7, false, Status::Ok);
    }

    /// Says whether the domain can be entered. The last one is restarted first if no call returns
    /// to it.
    pub fn enter(&mut self, place: usize) -> bool {
        if self.dead[place] && place == RING - 1 && self.active[place] == 0 {
            self.reborn(place);
            self.bound[place] = true;
            count(Event::Restart);
        }
        !self.dead[place]
    }

    /// Computes the result of a call of a function of this kind.
    pub fn call(&mut self, place: usize, path: Path, n: u64, x: u64, way: u64) -> Result<u64, Stop> {
        if !self.enter(place) {
            return Err(Stop::Dead);
        }
        self.active[place] += 1;
        let result = self.run(place, path, n, x, way);
        self.active[place] -= 1;
        result
    }

    pub fn run(&mut self, place: usize, path: Path, n: u64, x: u64, way: u64) -> Result<u64, Stop> {
        let key = key(place, self.version[place]);
        if n == 0 && way == 0 {
            self.state[place] = self.state[place].wrapping_mul(31).wrapping_add(x ^ 0x55);
            return Ok(self.state[place].wrapping_add(key));
        }
        if n == 0 && way == MAKE_PANIC {
            (0..RING).for_each(|i| self.dead[i] |= self.active[i] > 0);
            return Err(Stop::Panic);
        }
        if n == 0 {
            self.dead[place] = true;
            return Err(Stop::Died);
        }
        let (next, path) = match path {
            Path::Ring => (place + 1, Path::Ring),
            Path::Ping => (place + 1, Path::Pong),
            Path::Pong => (place + RING - 1, Path::Ping),
        };
        let led = !matches!(path, Path::Ring) || self.bound[place];
        let result = self.cross(place, led, next % RING, path, n - 1, x.wrapping_mul(3).wrapping_add(1), way)?;
        if self.dead[place] { Err(Stop::Below) } else { Ok(result.wrapping_add(x).wrapping_add(key)) }
    }

    /// Computes the new total, or the status of the failure.
    pub fn sum(&mut self, place: usize, values: &[u64], total: u64) -> Result<u64, Status> {
        if !self.enter(place) {
            return Err(Status::Dead);
        }
        if values.len() as u64 == DEADLY {
            self.dead[place] = true;
            return Err(Status::Fault);
        }
        Ok(summed(place, self.version[place], values, total))
    }

    /// Computes the result of a call of a domain by a domain.
    #[allow(clippy::too_many_arguments)]
    pub fn cross(
        &mut self,
        from: usize,
        led: bool,
        to: usize,
        path: Path,
        n: u64,
        x: u64,
        way: u64,
    ) -> Result<u64, Stop> {
        let stop = if led { self.call(to, path, n, x, way) } else { Err(Stop::Dead) };
        self.error[from] = match stop {
            Err(Stop::Panic) | Ok(_) => return stop,
            Err(Stop::Died) => Status::Fault,
            Err(Stop::Below | Stop::Dead) => Status::Dead,
        };
        if !led {
            self.error[from] = Status::Unbound;
        }
        Ok(FAIL)
    }
}
