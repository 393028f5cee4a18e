//! Resources that the process holds after servers were reloaded, restarted, bound and unbound many
//! times. This test is alone in its process, like `leaks`.

mod common;
use common::{assemble, function};
use sfi_loader::{Access, DomainSpec, Entry, Import, Manage, Restart, TypedFn, World};

#[test]
fn reloads_restarts_and_bindings_leak_nothing() {
    let object = assemble(&(function("work", "lea (%rdi,%rsi),%rax\nret") + &function("die", "ud2")));
    let server = |spare| {
        DomainSpec::new("server")
            .memory(1 << 16)
            .object("server.o", object.clone())
            .registers("work", Entry::function("work").signature("(int, int) -> int"))
            .registers("die", Entry::function("die").signature("() -> int"))
            .restart(Restart::Always)
            .spare_bindings(spare)
    };
    let client = function("run", "mov $2,%edi\nmov $3,%esi\ncall work\nret") + &function("kill", "call die\nret");
    let client = DomainSpec::new("client")
        .object("client.o", assemble(&client))
        .import("work", Import::entry("server.work"))
        .import("die", Import::entry("server.die"))
        .spare_bindings(2);
    let mut world =
        World::builder().region("r", 1 << 16).domain(client).domain(server(0)).permit("*", "*").build().unwrap();
    let [run, kill] = ["run", "kill"].map(|n| world.domain("client").unwrap().export::<fn() -> i64>(n).unwrap());
    let work: TypedFn<fn(u64, u64) -> u64> = world.domain("server").unwrap().export("work").unwrap();
    let round = |world: &mut World, i: usize| {
        world.make_visible("server", "r", Access::ReadWrite).unwrap();
        assert_eq!(run.call(world, ()), Ok(5));
        assert_eq!(kill.call(world, ()), Ok(-1));
        assert_eq!(run.call(world, ()), Ok(5), "restarted");
        world.connect_spare("client", "server.work").unwrap();
        // Another number of records, so that their ranges move.
        world.reload(server(i % 7)).unwrap();
        assert_eq!((run.call(world, ()), work.call(world, (1, 2))), (Ok(5), Ok(3)));
        world.make_invisible("server", "r").unwrap();
        world.unregister("server.work").unwrap();
        assert_eq!(run.call(world, ()), Ok(-1));
        world.register("server", "work", Entry::function("work").signature("(int, int) -> int")).unwrap();
    };
    for i in 0..30 {
        round(&mut world, i);
    }
    let files = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    let before = (common::maps().len(), files(), resident());
    for i in 0..300 {
        round(&mut world, i);
    }
    assert!(common::maps().len() <= before.0 + 8, "mappings grow: {} to {}", before.0, common::maps().len());
    assert!(files() <= before.1 + 2, "file descriptors grow");
    assert!(resident() < before.2 + (8 << 20), "memory grows: {} to {}", before.2, resident());
}

/// Returns the resident bytes of this process.
fn resident() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    text.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
}
