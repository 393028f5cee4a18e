//! Names of domains and entry points, and errors in specifications.

mod common;
use common::{assemble, function};
use sfi_loader::{
    BindError, BuildError, DomainSpec, Entry, Import, Manage, Service, SpecError, Supervisor, TypedFn, World,
};

/// A dot separates a domain from its entry point, so no name may hold one. Otherwise `net` could
/// register `tls.seal` and be taken for `net.tls`.
#[test]
fn no_name_holds_the_separator_or_what_cannot_be_printed() {
    let refused = |builder: sfi_loader::Builder, name: &str| match builder.build() {
        Err(BuildError::Bind(BindError::Name(found))) => assert_eq!(found, name),
        other => panic!("{name}: {other:?}"),
    };
    let spec = |name: &str| DomainSpec::new(name).object("o.o", assemble(&function("f", "ret")));
    for name in ["net.tls", ".", "net.", ".tls", "", "tls\u{1b}[31m", "tls\n", "\u{202e}slt", "t\u{200b}ls"] {
        refused(World::builder().domain(spec(name)), name);
        refused(World::builder().domain(spec("net").registers(name, Entry::function("f"))), name);
        for (supervisor, entry) in [(name, "seal"), ("net", name)] {
            let service = Service::function(|_| Ok(0));
            let supervisor_ = Supervisor::new(supervisor).entry(entry, service);
            refused(World::builder().supervisor(supervisor_), &format!("{supervisor}.{entry}"));
        }
    }
    let supervisor = || Supervisor::new("net").entry("seal", Service::function(|_| Ok(0)));
    assert!(World::builder().supervisor(supervisor()).domain(spec("net")).build().is_err(), "nobody is taken for one");
    // The rule also holds at run time.
    let text = function("squat", "lea f(%rip),%rsi\nlea type(%rip),%rdx\ncall __sfi_register\nret")
        + &function("f", "ret")
        + ".section .rodata\ntype: .asciz \"(int) -> int\"\n.balign 16\n.globl names\nnames:\n"
        + ".asciz \"tls.seal\"\n.balign 16\n.asciz \"tls\\n\"\n.balign 16\n.asciz \"\\342\\200\\256slt\"\n"
        + ".balign 16\n.asciz \"tls\"\n";
    let net = DomainSpec::new("net").object("o.o", assemble(&text));
    let net = net.import("__sfi_register", Import::host("__sfi_register").signature("(int, int, int) -> int"));
    let mut world = World::builder().domain(net).build().unwrap();
    let squat: TypedFn<fn(u64) -> i32> = world.domain("net").unwrap().export("squat").unwrap();
    let names = world.domain("net").unwrap().symbol("names").unwrap().0;
    for at in [0, 16, 32] {
        assert_eq!(squat.call(&mut world, (names + at,)), Ok(-1));
    }
    assert_eq!(world.entries(), Vec::<String>::new());
    assert_eq!(squat.call(&mut world, (names + 48,)), Ok(0));
}

/// An error in a specification is a value that a host can match on. No text stands twice in its
/// chain of errors.
#[test]
fn errors_are_values_and_say_a_thing_once() {
    let text = |error: &dyn std::error::Error| {
        let chain: Vec<String> = std::iter::successors(Some(error), |e| e.source()).map(|e| e.to_string()).collect();
        for (i, line) in chain.iter().enumerate() {
            assert!(!chain[..i].iter().any(|outer| outer.contains(line.as_str())), "{chain:?}");
        }
        chain.join(": ")
    };
    let spec = |name: &str| DomainSpec::new(name).object("o.o", assemble(&function("f", "call g\nret")));
    let server = || spec("server").import("g", Import::host("h")).registers("work", Entry::function("f"));
    let name = |name: &str| name.to_owned();
    let (domain, symbol) = (name("app"), name("g"));
    let host = || World::builder().host_fn("h", |_| Ok(0));
    let cases = [
        (host().domain(server()).domain(server()), SpecError::TwoDomains(name("server"))),
        (host().host_fn("h", |_| Ok(0)), SpecError::TwoHostFunctions(name("h"))),
        (host().region("r", 0), SpecError::RegionSize { region: name("r"), bytes: 0 }),
        (host().region("r", 1).region("r", 1), SpecError::TwoRegions(name("r"))),
        (
            host().domain(spec("app").import("g", Import::host("h")).import("g", Import::host("h"))),
            SpecError::GrantedTwice { domain: domain.clone(), symbol: symbol.clone() },
        ),
        (
            host().domain(spec("app").import("g", Import::host("none"))),
            SpecError::UnknownHostFunction { domain: domain.clone(), symbol: symbol.clone(), function: name("none") },
        ),
        (
            host().domain(spec("app").import("g", Import::domain("none", "f"))),
            SpecError::UnknownServer { domain: domain.clone(), symbol: symbol.clone(), server: name("none") },
        ),
        (
            host().domain(server().exports(["x"])).domain(spec("app").import("g", Import::domain("server", "f"))),
            SpecError::NotExported {
                domain: domain.clone(),
                symbol: symbol.clone(),
                server: name("server"),
                function: name("f"),
            },
        ),
        (
            host().domain(server()).domain(spec("app").import("g", Import::domain("server", "none"))),
            SpecError::NoFunction { domain, symbol, server: name("server"), function: name("none") },
        ),
    ];
    for (builder, expected) in cases {
        let error = builder.build().unwrap_err();
        assert_eq!(text(&error), expected.to_string());
        assert!(matches!(error, BuildError::Spec(found) if found == expected));
    }
    let refused = host().domain(server()).domain(spec("app").import("g", Import::entry("server.work"))).build();
    assert_eq!(text(&refused.unwrap_err()), "domain `app` may not connect to `server.work`");
    let mut world = host().domain(server()).build().unwrap();
    assert_eq!(text(&world.restart("none").unwrap_err()), "there is no domain `none`");
    assert_eq!(text(&world.connect("none", "g", "server.work").unwrap_err()), "there is no domain `none`");
}
