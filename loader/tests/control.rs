//! The control stack's stubs, used in every bad way: a domain drops its own return addresses and
//! nothing else.

mod common;
use common::{assemble, function, kind};
use sfi_loader::{
    CallError, DEFAULT_CONTROL_STACK, DomainSpec, FaultKind, HostError, Import, MAX_CONTROL_STACK, MIN_CONTROL_STACK,
    Manage, TypedFn, World,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Assembles the attacker. `down(n)` calls itself n times, then leaves through `jmp *%gs:leaf` with
/// rdi and rsi from `words`.
fn attacker() -> Vec<u8> {
    let mut text = ".data\n.globl words\nwords: .quad 0,0\n.globl leaf\nleaf: .quad 0\n".to_owned();
    text += &function(
        "down",
        "test %rdi,%rdi\nje 1f\ndec %rdi\ncall down\nadd $1,%rax\nret\n\
         1: mov words(%rip),%rdi\nmov words+8(%rip),%rsi\nmov leaf(%rip),%r11\nand $0xffff8,%r11d\njmp *%gs:__sfi_dispatch(%r11d)",
    );
    text += &function("target", "mov $1000,%eax\nret");
    text += &function("slot_of_target", "lea target(%rip),%rax\nret");
    for stub in ["__sfi_depth", "__sfi_return", "__sfi_cut"] {
        text += &function(&format!("slot_of{stub}"), &format!("lea {stub}(%rip),%rax\nret"));
        text += &function(&format!("call{stub}"), &format!("call {stub}\nret"));
    }
    // After a stub no register holds an address of the host.
    text += &function("after_depth", "call __sfi_depth\nmov %r10,%rax\nor %r11,%rax\nret");
    text += &function(
        "after_cut",
        "xor %eax,%eax\nlea behind_cut(%rip),%rsi\nxor %edi,%edi\njmp __sfi_cut\n.globl behind_cut\n.type behind_cut,@function\nbehind_cut: mov %r10,%rax\nor %r11,%rax\nor %rdi,%rax\nret",
    );
    text +=
        &function("after_return", "xor %edi,%edi\ncall __sfi_return\nmov %r10,%rax\nor %r11,%rax\nor %rdi,%rax\nret");
    assemble(&text)
}

struct Cage {
    world: World,
}

type Down = TypedFn<fn(u64) -> u64>;

impl Cage {
    fn new() -> Self {
        Self { world: World::builder().domain(DomainSpec::new("bad").object("bad.o", attacker())).build().unwrap() }
    }

    fn call(&mut self, name: &str) -> u64 {
        let f: TypedFn<fn() -> u64> = self.world.domain("bad").unwrap().export(name).unwrap();
        f.call(&mut self.world, ()).unwrap()
    }

    /// Leaves through `stub` with a depth and a target, from `frames` frames down.
    fn leave(&mut self, stub: &str, frames: u64, first: u64, second: u64) -> Result<u64, CallError> {
        let slot = self.call(&format!("slot_of{stub}"));
        let domain = self.world.domain("bad").unwrap();
        let (words, leaf) = (domain.symbol("words").unwrap(), domain.symbol("leaf").unwrap());
        let down: Down = domain.export("down").unwrap();
        let mut memory = self.world.memory("bad").unwrap();
        memory.write(words.0, &[first.to_le_bytes(), second.to_le_bytes()].concat()).unwrap();
        memory.write(leaf.0, &slot.to_le_bytes()).unwrap();
        let result = down.call(&mut self.world, (frames,));
        if result.is_err() {
            self.world.restart("bad").unwrap();
        }
        result
    }
}

#[test]
fn every_depth_of_the_part_can_be_cut_to_and_no_other() {
    let mut cage = Cage::new();
    let target = cage.call("slot_of_target");
    for frames in [0, 1, 2, 50] {
        for depth in 0..=frames {
            // `target` returns into the frame at this depth. Each frame there adds one.
            assert_eq!(cage.leave("__sfi_cut", frames, depth, target), Ok(1000 + depth), "{depth} of {frames}");
        }
        let wrong = [
            frames + 1,
            frames + 2,
            1 << 20,
            1 << 60,
            (1 << 61) - 1,
            1 << 61,
            (1 << 61) + 1,
            1 << 63,
            u64::MAX,
            u64::MAX - 1,
            u64::MAX / 8,
            -(frames as i64) as u64 | 1 << 63,
            1 << 32,
            (1 << 32) | frames,
        ];
        for depth in wrong {
            assert_eq!(
                kind(cage.leave("__sfi_cut", frames, depth, target)),
                FaultKind::DeadFrame,
                "{depth} of {frames}"
            );
        }
    }
}

#[test]
fn targets_are_masked_like_those_of_any_indirect_branch() {
    let mut cage = Cage::new();
    let target = cage.call("slot_of_target");
    // The mask drops the low bits and those above the table.
    for (offset, high) in [(0, 0), (1, 0), (7, 0), (3, 0x7fff_0000_0000_0000), (0, 0xffff_ffff_0000_0000)] {
        assert_eq!(cage.leave("__sfi_cut", 3, 1, (target & 0xffff_ffff) | offset | high), Ok(1001));
    }
    for wild in [0, u64::MAX, 1 << 47, 0x10_0ff0] {
        let kind = kind(cage.leave("__sfi_cut", 3, 1, wild));
        assert!(matches!(kind, FaultKind::WildBranch | FaultKind::Memory(_)), "{wild:#x}: {kind:?}");
    }
    // The targets are addresses of the host.
    let host = every_depth_of_the_part_can_be_cut_to_and_no_other as *const () as u64;
    for delta in [0, 1, 8] {
        let kind = kind(cage.leave("__sfi_cut", 3, 1, host + delta));
        assert!(matches!(kind, FaultKind::WildBranch | FaultKind::Memory(_)), "{kind:?}");
    }
}

#[test]
fn return_addresses_are_those_of_the_domain() {
    let mut cage = Cage::new();
    let base = cage.world.domain("bad").unwrap().secret_base();
    for frames in [1, 2, 50] {
        let text = cage.leave("__sfi_return", frames, 0, 0).unwrap() - frames;
        assert_eq!(text >> 32, base >> 32, "a code address of the window");
        for index in 0..frames {
            assert_eq!(cage.leave("__sfi_return", frames, index, 0), Ok(text + frames), "all of them from one call");
        }
        // The next word is the host's: the return address into the gate.
        for index in [frames, frames + 1, frames + 13, u64::MAX, u64::MAX - 1, u64::MAX - 13, 1 << 61, 1 << 63, 1 << 32]
        {
            assert_eq!(kind(cage.leave("__sfi_return", frames, index, 0)), FaultKind::DeadFrame, "{index} of {frames}");
        }
        assert_eq!(cage.leave("__sfi_depth", frames, 0, 0), Ok(2 * frames));
    }
    assert_eq!(kind(cage.leave("__sfi_return", 0, 0, 0)), FaultKind::DeadFrame);
}

#[test]
fn no_stub_leaves_an_address_of_the_host() {
    let mut cage = Cage::new();
    for name in ["after_depth", "after_cut", "after_return"] {
        assert_eq!(cage.call(name), 0, "{name}");
    }
    assert_eq!(cage.call("call__sfi_depth"), 1);
}

#[test]
fn stubs_can_be_entered_from_the_host_and_as_targets() {
    // The host may get a stub's slot as a pointer, and call it.
    let mut world = World::builder().domain(DomainSpec::new("bad").object("bad.o", attacker())).build().unwrap();
    let slot = |world: &mut World, name: &str| {
        let f: TypedFn<fn() -> u64> = world.domain("bad").unwrap().export(&format!("slot_of{name}")).unwrap();
        f.call(world, ()).unwrap()
    };
    let [depth, give, cut, target] =
        ["__sfi_depth", "__sfi_return", "__sfi_cut", "_target"].map(|n| slot(&mut world, n));
    let call = |world: &mut World, pointer, a, b| {
        let f: TypedFn<fn(u64, u64) -> u64> = world.domain("bad").unwrap().function_at(pointer).unwrap();
        let result = f.call(world, (a, b));
        if result.is_err() {
            world.restart("bad").unwrap();
        }
        result
    };
    assert_eq!(call(&mut world, depth, 0, 0), Ok(0));
    assert_eq!(call(&mut world, cut, 0, target), Ok(1000));
    assert_eq!(call(&mut world, cut, 0, depth), Ok(0));
    for wrong in [0, 1, u64::MAX] {
        assert_eq!(kind(call(&mut world, give, wrong, 0)), FaultKind::DeadFrame);
    }
    for wrong in [1, 2, u64::MAX] {
        assert_eq!(kind(call(&mut world, cut, wrong, target)), FaultKind::DeadFrame);
    }
}

#[test]
fn a_stub_that_jumps_to_itself_ends_with_the_time_limit() {
    let domain = DomainSpec::new("bad")
        .object("bad.o", assemble(&function("spin", "lea __sfi_cut(%rip),%rsi\nxor %edi,%edi\njmp __sfi_cut")));
    let limit = std::time::Duration::from_millis(100);
    let mut world = World::builder().domain(domain).time_limit(limit).build().unwrap();
    let spin: TypedFn<fn() -> u64> = world.domain("bad").unwrap().export("spin").unwrap();
    assert_eq!(kind(spin.call(&mut world, ())), FaultKind::TimeLimit);
}

/// A calls B, which calls A again. The second part of A holds the depth of the first, and can reach
/// neither it nor B's part.
#[test]
fn nobody_cuts_across_a_crossing() {
    let mut a = String::new();
    // go(n, depth): n frames, then middle(depth), which calls back `again`.
    a += &function(
        "go",
        "test %rdi,%rdi\nje 1f\ndec %rdi\ncall go\nadd $1,%rax\nret\n1: mov %rsi,%rdi\ncall middle\nadd $100,%rax\nret",
    );
    a += &function("again", "lea landing(%rip),%rsi\ncall __sfi_cut\nret");
    a += &function("landing", "mov $5000,%eax\nret");
    let mut b = String::new();
    b += &function("middle", "call deeper\nadd $10,%rax\nret");
    b += &function("deeper", "call again\nadd $20,%rax\nret");
    let world = World::builder()
        .domain(
            DomainSpec::new("a")
                .object("a.o", assemble(&a))
                .import("middle", Import::domain("b", "middle").signature("(int) -> int")),
        )
        .domain(
            DomainSpec::new("b")
                .object("b.o", assemble(&b))
                .import("again", Import::domain("a", "again").signature("(int) -> int").on_fault(7)),
        );
    let mut world = world.build().unwrap();
    let go: TypedFn<fn(u64, u64) -> u64> = world.domain("a").unwrap().export("go").unwrap();
    // Depths 0 and 1 are those of the second entry into A. `landing` returns to B.
    assert_eq!(go.call(&mut world, (4, 0)), Ok(5000 + 20 + 10 + 100 + 4));
    let landing_in_again = go.call(&mut world, (4, 1));
    assert_eq!(landing_in_again, Ok(5000 + 20 + 10 + 100 + 4));
    for depth in [2, 3, 4, 5, 13, 14, 20, u64::MAX] {
        let result = go.call(&mut world, (4, depth));
        // A died in its second entry, and with it the first.
        assert_eq!(kind(result), FaultKind::DeadFrame, "{depth}");
        assert!(!world.domain("b").unwrap().is_dead());
        world.restart("a").unwrap();
        assert_eq!(go.call(&mut world, (4, 0)), Ok(5134));
    }
}

/// A callback from a host function cuts: it reaches only its own part.
#[test]
fn nobody_cuts_across_a_host_function() {
    let mut text = function("go", "lea back(%rip),%rsi\ncall host_call\nadd $1,%rax\nret");
    text += &function("back", "lea landing(%rip),%rsi\ncall __sfi_cut\nret");
    text += &function("landing", "mov $70,%eax\nret");
    text += &function("depth_here", "call 1f\nret\n1: call __sfi_depth\nret");
    let seen = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&seen);
    let mut world = World::builder()
        .domain(DomainSpec::new("a").object("a.o", assemble(&text)).import("host_call", Import::host("host_call")))
        .host_fn("host_call", move |cx| {
            let argument = cx.arg(0);
            let inner: TypedFn<fn(u64) -> u64> = cx.function(cx.arg(1)).map_err(|e| HostError::new(e.to_string()))?;
            let result = inner.call(cx, (argument,));
            count.fetch_add(1, Ordering::Relaxed);
            Ok(result.unwrap_or(900))
        })
        .build()
        .unwrap();
    let go: TypedFn<fn(u64) -> u64> = world.domain("a").unwrap().export("go").unwrap();
    assert_eq!(go.call(&mut world, (0,)), Ok(71));
    assert_eq!(go.call(&mut world, (1,)), Ok(71));
    for depth in [2, 3, 4, 8, 9, 10, 11, 12, u64::MAX] {
        assert_eq!(kind(go.call(&mut world, (depth,))), FaultKind::DeadFrame, "{depth}");
        world.restart("a").unwrap();
    }
    assert_eq!(seen.load(Ordering::Relaxed), 11);
    let depth: TypedFn<fn() -> u64> = world.domain("a").unwrap().export("depth_here").unwrap();
    assert_eq!(depth.call(&mut world, ()), Ok(2));
}

/// Returns the depths of recursion, of those given, from which a domain comes back.
fn depths(world: &mut World, domain: &str, tried: &[u64]) -> Vec<u64> {
    let down: Down = world.domain(domain).unwrap().export("recurse").unwrap();
    let mut back = Vec::new();
    for depth in tried {
        match down.call(world, (*depth,)) {
            Ok(value) => {
                assert_eq!(value, *depth);
                back.push(*depth);
            }
            Err(CallError::Fault(fault)) => {
                assert_eq!(fault.kind, FaultKind::ControlStackOverflow, "{depth}");
                world.restart(domain).unwrap();
            }
            Err(error) => panic!("{depth}: {error}"),
        }
    }
    back
}

fn recursive(name: &str, control: Option<u64>) -> DomainSpec {
    let text =
        function("recurse", "test %rdi,%rdi\nje 1f\ndec %rdi\ncall recurse\nadd $1,%rax\nret\n1: xor %eax,%eax\nret");
    let spec = DomainSpec::new(name).object("r.o", assemble(&text));
    match control {
        Some(bytes) => spec.control_stack(bytes),
        None => spec,
    }
}

#[test]
fn the_control_stack_has_the_size_that_was_asked_for() {
    for asked in [None, Some(MIN_CONTROL_STACK), Some((1 << 20) + 1), Some(3 << 20), Some(MAX_CONTROL_STACK)] {
        let words = asked.unwrap_or(DEFAULT_CONTROL_STACK).next_multiple_of(4096) / 8;
        let mut world = World::builder().domain(recursive("a", asked)).build().unwrap();
        let near = [words - 100, words, words + 1, 10 * words, u64::MAX];
        assert_eq!(depths(&mut world, "a", &near), [words - 100], "{asked:?}");
        // A new life and an instance have no other.
        assert_eq!(depths(&mut world, "a", &near), [words - 100], "{asked:?}");
        world.reload(recursive("a", Some(MAX_CONTROL_STACK))).unwrap();
        assert_eq!(depths(&mut world, "a", &near), [words - 100], "{asked:?}");
    }
}

/// Domains of a world share its control stack, and worlds do not.
#[test]
fn the_largest_request_of_a_world_counts() {
    let mut large =
        World::builder().domain(recursive("a", None)).domain(recursive("b", Some(2 << 20))).build().unwrap();
    let mut small = World::builder().domain(recursive("a", None)).build().unwrap();
    let tried = [130_000, 200_000, 262_000, 263_000];
    assert_eq!(depths(&mut large, "a", &tried), tried[..3]);
    assert_eq!(depths(&mut small, "a", &tried), tried[..1]);
    assert_eq!(depths(&mut large, "b", &tried), tried[..3]);
}

#[test]
fn sizes_out_of_range_are_refused() {
    for bytes in [0, 1, MIN_CONTROL_STACK - 1, MAX_CONTROL_STACK + 1, 4 << 20, 1 << 32, u64::MAX] {
        let error = World::builder().domain(recursive("a", Some(bytes))).build().err().map(|e| e.to_string());
        let expected =
            format!("domain `a`: a control stack of {bytes} bytes; it has at least 65536 and at most 3670016");
        assert_eq!(error, Some(expected));
        let mut world = World::builder().domain(recursive("a", None)).build().unwrap();
        assert!(world.reload(recursive("a", Some(bytes))).is_err());
    }
}

/// Gateways share the reservation with the largest control stack. Too many are an error, and the
/// guard between them and the stack stays.
#[test]
fn gateways_leave_the_guard() {
    let build = |count: usize| {
        let spares = (0..count).map(|n| DomainSpec::new(format!("spare{n}")).spare_bindings(1024));
        let world = spares.fold(World::builder(), sfi_loader::Builder::domain);
        world.domain(recursive("a", Some(MAX_CONTROL_STACK))).build()
    };
    assert!(build(8).is_err());
    let words = MAX_CONTROL_STACK / 8;
    let most = (0..8).rev().find_map(|count| build(count).ok());
    assert_eq!(depths(&mut most.unwrap(), "a", &[words - 100, words, u64::MAX]), [words - 100]);
}
