//! A host that does not ignore SIGPIPE, as hosts in C do not: no write of a domain ends it.

mod support;

use sfi_arbitration::{Arbiter, GATEWAY, Policy, Stdio};
use sfi_loader::{Access, DomainSpec, HostCall, HostError, Import, Manage, TypedFn, World};
use std::os::unix::net::UnixStream;
use support::tenant;

/// Offset of a buffer in the region.
const BUFFER: u64 = 0x100;

fn ask(world: &mut World, number: i64, arguments: [u64; 3]) -> i64 {
    let at =
        world.domain("tenant").unwrap().secret_base() | world.region_in("tenant", "exchange").unwrap().0 & 0xffff_ffff;
    let words = [number as u64, arguments[0], arguments[1], arguments[2], 0, 0, 0];
    // A small first argument is a descriptor, another one an offset in the region.
    let words = words.map(|word| if word == BUFFER { at + BUFFER } else { word });
    world.region("exchange").unwrap().write(0, &words.map(u64::to_le_bytes).concat()).unwrap();
    let ask: TypedFn<fn(u64) -> i64> = world.domain("tenant").unwrap().export("ask").unwrap();
    ask.call(world, (at,)).unwrap()
}

#[test]
fn no_write_ends_the_host() {
    // SAFETY: the default action needs no handler. This is the only test of the process.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
    let (socket, other) = UnixStream::pair().unwrap();
    drop(other);
    let (reader, pipe) = std::io::pipe().unwrap();
    drop(reader);
    let directory = tempfile::tempdir().unwrap();
    let stdio = Stdio { fds: vec![Some(socket.into()), Some(pipe.into())] };
    let mut arbiter = Arbiter::new(Policy::default(), stdio);
    let mut world = World::builder()
        .region("exchange", 4096)
        .domain(
            DomainSpec::new("tenant")
                .object("tenant.o", tenant(directory.path()))
                .shared("exchange", "exchange", Access::ReadWrite)
                .import(GATEWAY, Import::host(GATEWAY).signature("(int) -> int")),
        )
        .host_fn(GATEWAY, move |cx: &mut HostCall<'_>| -> Result<u64, HostError> { arbiter.host_call(cx) })
        .build()
        .unwrap();
    let refused = -i64::from(libc::EPIPE);
    for descriptor in [0, 1] {
        assert_eq!(ask(&mut world, libc::SYS_write, [descriptor, BUFFER, 5]), refused, "{descriptor}");
    }
    // The domain's own pipe without a reader.
    assert_eq!(ask(&mut world, libc::SYS_pipe, [BUFFER, 0, 0]), 0);
    assert_eq!(ask(&mut world, libc::SYS_close, [2, 0, 0]), 0);
    assert_eq!(ask(&mut world, libc::SYS_write, [3, BUFFER, 5]), refused);
}
