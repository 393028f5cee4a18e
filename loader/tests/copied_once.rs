//! Buffers are copied once. A change of the source during or after the copy changes neither the
//! data that the other side sees nor the amount that is copied back. Nothing is read twice, least
//! of all a length.

mod common;
use common::{assemble, function};
use sfi_loader::{
    Access, CallError, DomainSpec, Import, Manage, Memory, Raw, Received, Status, TypedFn, World,
    interface::Declaration,
};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Fills `data` with its number of bytes, and adds one to `size`.
const FILL: &str = "u64 fill(inout u8 data[*size], inout u64 size[1])";
/// A size beyond any buffer here.
const HUGE: u64 = 1 << 20;
/// Least number of calls against a writer. More calls follow until it interfered, within the time
/// below.
const CALLS: usize = 20_000;
const PATIENCE: Duration = Duration::from_secs(30);

fn declaration(text: &str) -> Declaration {
    text.parse().unwrap()
}

/// Makes the server. It overwrites the first 128 bytes of the region, does the work of [`FILL`] on
/// its copies, and returns the first byte that it found in its copy of `data`.
fn server() -> DomainSpec {
    let spoil: String = (0..16).map(|i| format!("mov %rax,%gs:shared+{}(%eip)\n", 8 * i)).collect();
    let text = function(
        "fill",
        &format!(
            "mov $-1,%rax\n{spoil}mov %gs:(%esi),%rcx\nmov %ecx,%edx\ntest %ecx,%ecx\njz 2f\nmovzbl %gs:(%edi),%eax\n1: dec %rdx\njs 2f\n\
             mov %cl,%gs:(%edi,%edx)\njmp 1b\n2: inc %rcx\nmov %rcx,%gs:(%esi)\nret"
        ),
    );
    DomainSpec::new("server").object("server.o", assemble(&text)).shared("shared", "region", Access::ReadWrite)
}

fn client(import: Import) -> DomainSpec {
    let text = ".globl own\n.data\n.balign 16\nown: .skip 4096\n.text\n".to_owned()
        + &function("run", "jmp fill")
        + &function("error", "mov __sfi_error(%rip),%eax\nret");
    let spec = DomainSpec::new("client").object("client.o", assemble(&text)).import("fill", import);
    spec.shared("shared", "region", Access::ReadWrite)
}

type Run = TypedFn<fn(u64, u64) -> u64>;

fn run(world: &World) -> Run {
    world.domain("client").unwrap().export("run").unwrap()
}

fn read(memory: &Memory<'_>, at: u64, length: usize) -> Vec<u8> {
    memory.read(at, length).unwrap()
}

#[test]
fn the_callee_changes_the_source() {
    let import = Import::domain("server", "fill").interface(declaration(FILL)).on_fault(-9);
    let mut world = World::builder().region("region", 4096).domain(client(import)).domain(server()).build().unwrap();
    let shared = world.region_in("client", "region").unwrap().0;
    let mut memory = world.memory("client").unwrap();
    memory.write(shared, &16u64.to_le_bytes()).unwrap();
    memory.write(shared + 8, &[5; 120]).unwrap();
    // The elements and their number lie in the region, which the server sees.
    assert_eq!(run(&world).call(&mut world, (shared + 8, shared)), Ok(5), "the copy was changed with its source");
    let memory = world.memory("client").unwrap();
    assert_eq!(read(&memory, shared, 8), 17u64.to_le_bytes());
    assert_eq!(read(&memory, shared + 8, 16), [16; 16]);
    assert_eq!(read(&memory, shared + 24, 104), [0xff; 104], "more was copied back than was checked");
}
/// The seventh argument lies on the caller's data stack. The caller changes it in a call back.
#[test]
fn the_caller_changes_its_stack() {
    let frame = "mov %r15,%gs:kept(%eip)\nlea -64(%r15),%r15\n";
    let text = function("run", &format!("{frame}movq $7,%gs:(%r15d)\ncall seven\nmov %gs:kept(%eip),%r15\nret"))
        + &function("change", "mov %gs:kept(%eip),%rdx\nmov %rdi,%gs:-64(%edx)\nmov %gs:-64(%edx),%rax\nret")
        + ".bss\n.balign 8\nkept: .quad 0\n.text\n";
    let seven = format!("({}) -> int", ["int"; 7].join(", "));
    for declared in [true, false] {
        let import = Import::host("seven");
        let import = if declared { import.signature(seven.as_str()) } else { import };
        let mut world = World::builder()
            .domain(DomainSpec::new("client").object("client.o", assemble(&text)).import("seven", import))
            .host_fn("seven", |cx| {
                let before = cx.arg(6);
                let change: TypedFn<fn(u64) -> u64> = cx.export("client", "change")?;
                assert_eq!(change.call(cx, (HUGE,))?, HUGE);
                assert_eq!((before, cx.arg(6)), (7, 7), "the argument was read twice");
                assert_eq!((cx.arg(6 + 64), cx.arg(usize::MAX)), (0, 0));
                Ok(before)
            })
            .build()
            .unwrap();
        let run: TypedFn<fn() -> u64> = world.domain("client").unwrap().export("run").unwrap();
        assert_eq!(run.call(&mut world, ()), Ok(7));
    }
}

#[test]
fn a_host_function_sees_its_own_copy() {
    let builder = World::builder().serve("fill", declaration(FILL), |cx, received| {
        let at = cx.arg(0);
        // Another holder of the caller's memory writes to it now.
        cx.write(at, &[0xff; 64])?;
        cx.write(cx.arg(1), &HUGE.to_le_bytes())?;
        let [Received::Elements(data), Received::Elements(size)] = received else { panic!("{received:?}") };
        assert_eq!((&data[..], &size[..]), (&[5; 16][..], &16u64.to_le_bytes()[..]));
        data.fill(16);
        size.copy_from_slice(&u64::MAX.to_le_bytes());
        Ok(5)
    });
    let import = Import::host("fill").signature(declaration(FILL).signature()).on_fault(-9);
    let mut world = builder.region("region", 4096).domain(client(import)).build().unwrap();
    let own = world.domain("client").unwrap().symbol("own").unwrap().0;
    let mut memory = world.memory("client").unwrap();
    memory.write(own, &[5; 128]).unwrap();
    memory.write(own + 128, &16u64.to_le_bytes()).unwrap();
    assert_eq!(run(&world).call(&mut world, (own, own + 128)), Ok(5));
    let memory = world.memory("client").unwrap();
    assert_eq!(read(&memory, own, 16), [16; 16]);
    assert_eq!(read(&memory, own + 16, 48), [0xff; 48], "the length was read again");
    assert_eq!(read(&memory, own + 64, 64), [5; 64]);
    // Buffers that do not fit the declaration never reach the host function.
    let error: TypedFn<fn() -> u32> = world.domain("client").unwrap().export("error").unwrap();
    for (data, size) in [(own, 0), (own, own + 4092), (own, own), (0, own + 128), (own + 4096 - 8, own + 256)] {
        world.memory("client").unwrap().write(own, &[0xff; 8]).unwrap();
        world.memory("client").unwrap().write(own + 256, &9u64.to_le_bytes()).unwrap();
        let result = run(&world).call(&mut world, (data, size));
        assert_eq!(result, Ok(-9_i64 as u64), "{:#x} {:#x}", data - own, size - own);
        assert_eq!(error.call(&mut world, ()), Ok(Status::Arguments as u32));
    }
}

/// Runs `body` while another thread writes numbers to a word, over and over.
fn while_somebody_writes(at: u64, body: impl FnOnce()) {
    /// Ends the thread when it is dropped, also if the body panics.
    struct Stop<'s>(&'s AtomicBool);
    impl Drop for Stop<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // SAFETY: the caller gives the address of an aligned word that stays mapped.
            let word = unsafe { AtomicU64::from_ptr(at as *mut u64) };
            while !stop.load(Ordering::Relaxed) {
                for number in [1, HUGE, 40, u64::MAX, 16, 1 << 62, 0] {
                    word.store(number, Ordering::Relaxed);
                    std::hint::spin_loop();
                }
            }
        });
        let _stop = Stop(&stop);
        body();
    });
}

#[test]
fn a_thread_changes_the_length_of_a_domains_buffer() {
    let builder = World::builder().serve("fill", declaration(FILL), |_, received| {
        let [Received::Elements(data), Received::Elements(size)] = received else { panic!("{received:?}") };
        let size = u64::from_le_bytes(size[..].try_into().unwrap());
        assert_eq!(data.len() as u64, size, "the length was read twice");
        data.fill(7);
        Ok(size)
    });
    let import = Import::host("fill").signature(declaration(FILL).signature()).on_fault(-9);
    let mut world = builder.region("region", 4096).domain(client(import)).build().unwrap();
    let own = world.domain("client").unwrap().symbol("own").unwrap().0;
    let run = run(&world);
    let (mut refused, mut sizes) = (0, std::collections::BTreeSet::new());
    let (start, mut calls) = (Instant::now(), 0);
    while_somebody_writes(own + 1024, || {
        while (calls < CALLS || refused == 0 || sizes.len() < 2) && start.elapsed() < PATIENCE {
            calls += 1;
            match run.call(&mut world, (own, own + 1024)).unwrap() {
                size @ (0 | 1 | 16 | 40) => _ = sizes.insert(size),
                other => {
                    assert_eq!(other, -9_i64 as u64);
                    refused += 1;
                }
            }
        }
    });
    assert!(refused > 0 && sizes.len() > 1, "nobody interfered: {refused} refused, sizes {sizes:?}");
    assert_eq!(read(&world.memory("client").unwrap(), own + 40, 900), [0; 900]);
}

#[test]
fn a_thread_changes_the_length_of_a_hosts_buffer() {
    let mut world = World::builder().region("region", 4096).domain(server()).build().unwrap();
    let fill = world.domain("server").unwrap().bind(&declaration(FILL)).unwrap();
    // 64 bytes of a buffer, and bytes after it that must not change.
    let mut data = vec![0xaa_u8; 256];
    let mut size = 0_u64;
    let (data_at, size_at) = (data.as_mut_ptr(), &raw mut size);
    let (mut refused, mut done) = (0, 0);
    let (start, mut calls) = (Instant::now(), 0);
    while_somebody_writes(size_at as u64, || {
        while (calls < CALLS || refused == 0 || done == 0) && start.elapsed() < PATIENCE {
            calls += 1;
            let arguments = [Raw::Buffer(data_at, 64), Raw::Buffer(size_at.cast(), 8)];
            // SAFETY: both are buffers of at least the given sizes.
            match unsafe { fill.call_raw(&mut world, &arguments) } {
                Ok(_) => done += 1,
                Err(CallError::Arguments { .. }) => refused += 1,
                Err(other) => panic!("{other}"),
            }
        }
    });
    assert!(refused > 0 && done > 0, "nobody interfered: {refused} refused, {done} done");
    assert!(data[..64].iter().any(|byte| *byte != 0xaa));
    assert_eq!(data[64..], [0xaa; 192], "more was copied back than was checked");
    // Overlapping buffers, as hosts in other languages may pass them.
    let mut both = 8_u64;
    let at = (&raw mut both).cast();
    // SAFETY: as above.
    let result = unsafe { fill.call_raw(&mut world, &[Raw::Buffer(at, 8), Raw::Buffer(at, 8)]) };
    assert_eq!((result, both), (Ok(8), 0x0808_0808_0808_0808), "each has its copy; the elements come back last");
    // SAFETY: as above.
    let wrong = unsafe { fill.call_raw(&mut world, &[Raw::Word(1), Raw::Buffer(at, 8)]) };
    assert!(matches!(wrong, Err(CallError::Arguments { .. })));
}
