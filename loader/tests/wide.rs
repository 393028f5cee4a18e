//! Texts that name the registers of AVX-512, on whatever processor runs them. Many libraries hold
//! such code for processors that have it. Without AVX-512 it ends in a fault of its domain, and
//! calls that do not reach it work: no gate executes such an instruction for the domain.

mod common;
use common::{assemble, function};
use sfi_loader::{CallError, DomainSpec, FaultKind, Import, Manage, Mode, Restart, Trust, TypedFn, World};

/// A function that names no wide register, one that does, and code for the other domain's ones.
fn text(name: &str, other: &str) -> Vec<u8> {
    let code = function(&format!("{name}_plain"), "mov $7,%eax\nret")
        + &function(&format!("{name}_wide"), "vpxorq %zmm20,%zmm20,%zmm20\nkxorw %k1,%k1,%k1\nmov $8,%eax\nret")
        + &function(&format!("{name}_calls"), &format!("call {other}_plain\nadd $1,%eax\nret"));
    assemble(&code)
}

fn call(world: &mut World, domain: &str, name: &str) -> Result<u64, CallError> {
    let f: TypedFn<fn() -> u64> = world.domain(domain).unwrap().export(name).unwrap();
    f.call(world, ())
}

/// Checks the outcome of a function that executes an instruction of AVX-512.
fn check_wide(outcome: Result<u64, CallError>) {
    match (outcome, std::arch::is_x86_feature_detected!("avx512f")) {
        (Ok(8), true) => {}
        (Err(CallError::Fault(fault)), false) => assert_eq!(fault.kind, FaultKind::IllegalInstruction),
        (outcome, has) => panic!("{outcome:?}, AVX-512: {has}"),
    }
}

#[test]
fn gates_execute_what_the_processor_has() {
    for trust in Trust::ALL {
        for mode in [Mode::Write, Mode::Full] {
            let spec = |name: &str, other: &str| {
                let import = Import::domain(other, format!("{other}_plain")).signature("() -> int").trust(trust);
                let object = text(name, other);
                DomainSpec::new(name)
                    .object("o.o", object)
                    .mode(mode)
                    .restart(Restart::Always)
                    .import(format!("{other}_plain"), import)
            };
            let mut world = World::builder().domain(spec("a", "b")).domain(spec("b", "a")).build().unwrap();
            for (name, wide) in [("a", "a_wide"), ("b", "b_wide")] {
                assert_eq!(call(&mut world, name, &format!("{name}_plain")).unwrap(), 7, "{trust:?} {mode:?}");
                assert_eq!(call(&mut world, name, &format!("{name}_calls")).unwrap(), 8, "{trust:?} {mode:?}");
                check_wide(call(&mut world, name, wide));
            }
        }
    }
}

#[test]
fn a_domain_that_is_loaded_again_names_them_too() {
    let import = Import::host("b_plain").signature("() -> int");
    let spec = || DomainSpec::new("a").object("o.o", text("a", "b")).import("b_plain", import.clone());
    let mut world = World::builder().domain(spec()).host_fn("b_plain", |_| Ok(1)).build().unwrap();
    for _ in 0..2 {
        assert_eq!(call(&mut world, "a", "a_plain").unwrap(), 7);
        assert_eq!(call(&mut world, "a", "a_calls").unwrap(), 2);
        check_wide(call(&mut world, "a", "a_wide"));
        world.reload(spec()).unwrap();
    }
}
