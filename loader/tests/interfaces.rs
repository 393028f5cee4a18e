//! Buffers that cross by copy, from domain to domain and from host to domain, and all values that a
//! hostile side may give for them.

mod common;
use common::{assemble, function};
use sfi_loader::interface::Declaration;
use sfi_loader::{CallError, DomainSpec, Import, Passed, Status, TypedFn, World, bytes, bytes_mut};

/// Doubles `values` into `result` and returns their sum.
const DOUBLE: &str = "i32 double(in i32 values[count], u64 count, out i32 result[count])";
/// Fills `data` with the number in `size`, and lowers `size` by one.
const SHRINK: &str = "void shrink(inout u8 data[*size], inout u32 size[1])";
const LAST: &str = "i64 last(in u8 data[count], i8 count, out u64 where[2])";
const HALF: &str = "f64 half(f64 x, in f32 y[1])";
const CRASH: &str = "i32 crash(in u8 data[4], out u8 other[4])";

fn server() -> String {
    function(
        "double",
        "xor %eax,%eax\n1: test %rsi,%rsi\njz 2f\nmov %gs:(%edi),%ecx\nadd %ecx,%eax\nadd %ecx,%ecx\nmov %ecx,%gs:(%edx)\n\
         add $4,%rdi\nadd $4,%rdx\ndec %rsi\njmp 1b\n2: ret",
    ) + &function(
        "shrink",
        "mov %gs:(%esi),%ecx\nmov %ecx,%eax\n1: dec %eax\njs 2f\nmov %cl,%gs:(%edi,%eax)\njmp 1b\n2: dec %ecx\nmov %ecx,%gs:(%esi)\nret",
    ) + &function(
        "last",
        "movsbq %sil,%rsi\nmovzbl %gs:-1(%edi,%esi),%eax\nadd %gs:(%edx),%rax\nmov %rdx,%gs:(%edx)\nmov %rdi,%gs:8(%edx)\nret",
    ) + &function(
        "half",
        "cvtss2sd %gs:(%edi),%xmm1\naddsd %xmm1,%xmm0\nmulsd .Lhalf(%rip),%xmm0\nret\n.section .rodata\n.Lhalf: .double 0.5\n.text",
    ) + &function("crash", "xor %eax,%eax\nmov %rax,%gs:0x10(%eax)\nret")
}

fn declaration(text: &str) -> Declaration {
    text.parse().unwrap()
}

/// Returns functions of the client that pass their own arguments on.
fn client() -> String {
    let mut text = String::from(
        ".globl data\n.data\n.balign 16\ndata: .skip 65536, 7\n.section .rodata\n.globl fixed\nfixed: .skip 64, 5\n.text\n",
    );
    for name in ["double", "shrink", "last", "half", "crash"] {
        text += &function(&format!("run_{name}"), &format!("jmp {name}"));
    }
    text + &function("error", "mov __sfi_error(%rip),%eax\nret")
}

fn world() -> World {
    let mut spec = DomainSpec::new("client").object("client.o", assemble(&client()));
    for text in [DOUBLE, SHRINK, LAST, HALF, CRASH] {
        let d = declaration(text);
        spec = spec.import(d.name.clone(), Import::domain("server", d.name.clone()).interface(d).on_fault(-99));
    }
    let server = DomainSpec::new("server").stack(128 << 10).object("server.o", assemble(&server()));
    World::builder().domain(spec).domain(server).build().unwrap()
}

fn symbol(world: &World, name: &str) -> u64 {
    world.domain("client").unwrap().symbol(name).unwrap().0
}

type Three = fn(u64, u64, u64) -> i64;

fn call(world: &mut World, name: &str, a: u64, b: u64, c: u64) -> i64 {
    let f: TypedFn<Three> = world.domain("client").unwrap().export(&format!("run_{name}")).unwrap();
    f.call(world, (a, b, c)).unwrap()
}

fn error(world: &mut World) -> u32 {
    let f: TypedFn<fn() -> u32> = world.domain("client").unwrap().export("error").unwrap();
    f.call(world, ()).unwrap()
}

fn fill(world: &mut World, at: u64, data: &[u8]) {
    world.memory("client").unwrap().write(at, data).unwrap();
}

fn seen(world: &mut World, at: u64, length: usize) -> Vec<u8> {
    world.memory("client").unwrap().read(at, length).unwrap()
}

#[test]
fn buffers_cross_between_domains() {
    let mut world = world();
    let data = symbol(&world, "data");
    fill(&mut world, data, bytes(&[1i32, -5, 100, 4]));
    assert_eq!(call(&mut world, "double", data, 4, data + 64) as i32, 100);
    assert_eq!(seen(&mut world, data + 64, 16), bytes(&[2i32, -10, 200, 8]));
    assert_eq!(seen(&mut world, data, 16), bytes(&[1i32, -5, 100, 4]), "`in` is not copied back");
    // The client's stores ignore the upper half of a pointer, and so does the copy.
    assert_eq!(call(&mut world, "double", data & 0xffff_ffff, 1, data + 128) as i32, 1);
    // Without elements any pointer is good.
    assert_eq!(call(&mut world, "double", 0, 0, 1 << 63) as i32, 0);
}

#[test]
fn lengths_behind_pointers_and_results() {
    let mut world = world();
    let data = symbol(&world, "data");
    fill(&mut world, data, &40u32.to_le_bytes());
    call(&mut world, "shrink", data + 64, data, 0);
    assert_eq!(seen(&mut world, data, 4), 39u32.to_le_bytes());
    assert_eq!(seen(&mut world, data + 64, 41), [[40u8; 40].as_slice(), &[7]].concat());
    // Only the 8 bits of an 8-bit length count.
    fill(&mut world, data + 4, &[9]);
    assert_eq!(call(&mut world, "last", data, 0xabcd_ef05, data + 128), 9);
    // The callee saw addresses of its own stack, and `out` was zero.
    let told = seen(&mut world, data + 128, 16);
    let pointer = |i: usize| u64::from_le_bytes(told[i..i + 8].try_into().unwrap());
    let base = world.domain("server").unwrap().secret_base();
    assert!([0, 8].iter().all(|i| pointer(*i) >> 32 == base >> 32), "{told:x?}");
}

#[test]
fn floats_cross_beside_buffers() {
    let mut world = world();
    let data = symbol(&world, "data");
    fill(&mut world, data, bytes(&[2.5f32]));
    let f: TypedFn<fn(f64, u64) -> f64> = world.domain("client").unwrap().export("run_half").unwrap();
    assert_eq!(f.call(&mut world, (3.5, data)), Ok(3.0));
}

#[test]
fn hostile_clients_get_an_error() {
    let mut world = world();
    let (data, fixed) = (symbol(&world, "data"), symbol(&world, "fixed"));
    let server = world.domain("server").unwrap().secret_base();
    for (values, count, result, what) in [
        (data, 1 << 62, data, "a length that wraps"),
        (data, u64::MAX, data, "a length that wraps"),
        (data, 1 << 30, data, "more than there is"),
        (data, 30 << 10, data, "more than the server's stack has room for"),
        (0x1000, 1, data, "unmapped"),
        (0, 1, data, "null"),
        (data, 1, 0x1000, "unmapped result"),
        (data, 1, fixed, "a result that cannot be written"),
        (data + 65536 - 4, 2, data, "half a buffer"),
        (data, 1, 0x10_0000, "the dispatch table"),
        (server + 0x10_0000, 1, server + 0x30_0000 + 0x1000, "another window's address is one of the client's own"),
    ] {
        assert_eq!(call(&mut world, "double", values, count, result), -99, "{what}");
        assert_eq!(error(&mut world), Status::Arguments as u32, "{what}");
    }
    fill(&mut world, data, &u32::MAX.to_le_bytes());
    assert_eq!(call(&mut world, "shrink", data, data, 0), -99);
    assert_eq!(call(&mut world, "last", data, 0xff, data), -99, "a negative length");
    // Afterwards the state is as before, including the server's stack.
    fill(&mut world, data, bytes(&[21i32]));
    for _ in 0..1000 {
        assert_eq!(call(&mut world, "double", data, 1, data + 4) as i32, 21);
    }
    let words = seen(&mut world, data, 48 << 10);
    let words = words.chunks_exact(4).map(|c| i32::from_le_bytes(c.try_into().unwrap()));
    let sum = words.fold(0, i32::wrapping_add);
    assert_eq!(call(&mut world, "double", data, 12 << 10, data) as i32, sum, "in place, as much as fits");
}

#[test]
fn a_server_that_dies_leaves_the_clients_buffers() {
    let mut world = world();
    let data = symbol(&world, "data");
    assert_eq!(call(&mut world, "crash", data, data + 8, 0), -99);
    assert_eq!(error(&mut world), Status::Fault as u32);
    assert_eq!(seen(&mut world, data, 16), [7; 16]);
    assert_eq!(call(&mut world, "double", data, 1, data), -99);
    assert_eq!(error(&mut world), Status::Dead as u32);
    world.restart("server").unwrap();
    fill(&mut world, data, bytes(&[4i32]));
    assert_eq!(call(&mut world, "double", data, 1, data) as i32, 4);
}

#[test]
fn hosts_pass_slices() {
    let mut world = world();
    let bind = |world: &World, text| world.domain("server").unwrap().bind(&declaration(text)).unwrap();
    let double = bind(&world, DOUBLE);
    let (values, mut result) = ([3i32, 4, -20], [0i32; 3]);
    let sum = double
        .call(&mut world, &mut [Passed::In(bytes(&values)), Passed::Word(3), Passed::Out(bytes_mut(&mut result))]);
    assert_eq!((sum.map(|w| w as i32), result), (Ok(-13), [6, 8, -40]));
    let half = bind(&world, HALF);
    let bits = half.call(&mut world, &mut [Passed::Word(7f64.to_bits()), Passed::In(bytes(&[1f32]))]).unwrap();
    assert_eq!(f64::from_bits(bits), 4.0);
    let shrink = bind(&world, SHRINK);
    let (mut data, mut size) = ([0u8; 5], [5u32]);
    shrink.call(&mut world, &mut [Passed::InOut(&mut data), Passed::InOut(bytes_mut(&mut size))]).unwrap();
    assert_eq!((data, size), ([5; 5], [4]));
    // Slices that are too short, of another kind, or missing.
    let wrong = Err(CallError::Arguments { domain: "server".into() });
    assert_eq!(
        double
            .call(&mut world, &mut [Passed::In(bytes(&values)), Passed::Word(4), Passed::Out(bytes_mut(&mut result))]),
        wrong
    );
    assert_eq!(
        double.call(&mut world, &mut [Passed::In(bytes(&values)), Passed::Word(3), Passed::In(bytes(&values))]),
        wrong
    );
    assert_eq!(double.call(&mut world, &mut []), wrong);
    assert!(matches!(
        world.domain("server").unwrap().bind(&declaration("void none()")),
        Err(sfi_loader::LookupError::Function { .. })
    ));
    let crash = bind(&world, CRASH);
    let mut out = [1u8; 4];
    assert!(matches!(
        crash.call(&mut world, &mut [Passed::In(&[0; 4]), Passed::Out(&mut out)]),
        Err(CallError::Fault(_))
    ));
    assert_eq!(out, [1; 4]);
}
