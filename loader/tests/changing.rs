//! Random changes of bindings, entry points and domains in the middle of calls. The domains have
//! budgets of instructions, whose rest is compared with a model, and each checks that its callees
//! leave it its registers.

mod common;
use common::{CALL_RAX, assemble, function};
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use sfi_loader::{
    CallError, DomainSpec, Entry, HostCall, HostError, Import, Manage, Mode, Restart, Tenant, Trust, TypedFn, World,
};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

const NAMES: [&str; 4] = ["a", "b", "c", "d"];
/// The instance of `a` that every second world has. Both share their bindings.
const INSTANCE: &str = "a#1";
/// The instructions of `step`: at its start, for each call that it makes, and at its end.
const COST: [u64; 3] = [20, 40, 30];
const MOST: u64 = 1 << 40;
const SIGNATURE: &str = "() -> int";

/// `step` asks the host for the next call and makes it, by its imports or by a function pointer,
/// until the host says 0. Then it checks its preserved registers. 5 is a fault.
fn text(word: u64) -> String {
    let registers = ["rbx", "rbp", "r12", "r13"];
    let each = |line: &dyn Fn(usize, &str) -> String| -> String {
        registers.iter().enumerate().map(|(i, register)| line(i, register)).collect()
    };
    let save = each(&|i, r| format!("mov %{r},%gs:{}(%r15d)\n", 8 * i));
    let plant = each(&|i, r| format!("mov ${},%{r}\n", word + i as u64));
    let check = each(&|i, r| format!("cmp ${},%{r}\njne 8f\n", word + i as u64));
    let restore = each(&|i, r| format!("mov %gs:{}(%r15d),%{r}\n", 8 * i));
    let calls = "test %rax,%rax\nje 7f\ncmp $2,%rax\nje 2f\ncmp $3,%rax\nje 3f\ncmp $5,%rax\nje 5f\nja 4f\n";
    let body = format!(
        "sub ${},%r14\njb 9f\nlea -64(%r15),%r15\n{save}{plant}6:\nsub ${},%r14\njb 9f\ncall host\n{calls}\
         1:\ncall x\njmp 6b\n2:\ncall y\njmp 6b\n3:\ncall z\njmp 6b\n4:\n{CALL_RAX}jmp 6b\n5:\nud2\n\
         7:\nsub ${},%r14\njb 9f\n{check}{restore}lea 64(%r15),%r15\nret\n8:\ncall wrong\nret\n9:\nint3",
        COST[0], COST[1], COST[2]
    );
    function("step", &body)
}

/// All that the host knows of the calls.
struct Model {
    random: ChaCha20Rng,
    /// Calls that the host still starts.
    fuel: u32,
    /// The instructions that each domain's present life has spent, once all its runs have ended.
    spent: HashMap<String, (Tenant, u64)>,
    /// Questions of domains, changes, and registers that were not the caller's.
    all: [u64; 3],
}

impl Model {
    fn one_of<'t, T: ?Sized>(&mut self, list: &[&'t T]) -> &'t T {
        list[self.random.next_u32() as usize % list.len()]
    }
}

fn lock(model: &Mutex<Model>) -> MutexGuard<'_, Model> {
    model.lock().unwrap_or_else(PoisonError::into_inner)
}

fn host(cx: &mut HostCall<'_>, model: &Mutex<Model>) -> Result<u64, HostError> {
    let (caller, tenant) = (cx.caller().to_owned(), cx.tenant());
    let mut held = lock(model);
    held.all[0] += 1;
    // Two changes at a time at most, and some of them are refused.
    for _ in 0..held.random.next_u32() % 3 {
        let (one, other) = (held.one_of(&NAMES), held.one_of(&NAMES));
        let entry = format!("{other}.step");
        let done = match held.random.next_u32() % 8 {
            0 | 1 => cx.disconnect(one, held.one_of(&["x", "y", "z"])).is_ok(),
            2 | 3 => cx.connect(one, held.one_of(&["x", "y", "z"]), &entry).is_ok(),
            4 => cx.unregister(&entry).is_ok(),
            5 => cx.register(other, "step", Entry::function("step").signature(SIGNATURE)).is_ok(),
            6 if held.random.next_u32().is_multiple_of(4) => {
                let spec = cx.domain(one).unwrap().spec().clone();
                cx.reload(spec).is_ok()
            }
            _ => cx.connect_spare(one, &entry).is_ok(),
        };
        held.all[1] += u64::from(done);
    }
    let next = if held.fuel == 0 { 23 } else { held.random.next_u32() % 24 };
    held.fuel = held.fuel.saturating_sub(1);
    let price = if next == 23 { COST.iter().sum() } else { COST[1] };
    let spent = held.spent.entry(caller.clone()).or_insert((tenant, 0));
    *spent = (tenant, price + if spent.0 == tenant { spent.1 } else { 0 });
    let name = held.one_of(&NAMES);
    let entered = held.one_of(&["a", "b", "c", "d", INSTANCE]);
    drop(held);
    match next {
        0..7 => Ok(1),
        7..12 => Ok(2),
        12..17 => Ok(3),
        17 => Ok(5),
        // 1 calls an import if there is no gateway.
        18..20 => Ok(cx.connect_spare(&caller, &format!("{name}.step")).map_or(1, |connected| connected.pointer().0)),
        20..22 => {
            let step: Result<TypedFn<fn() -> u64>, _> = cx.export(entered, "step");
            let returned = step.is_ok_and(|step| step.call(cx, ()).is_ok());
            assert!(!returned || !cx.domain(entered).unwrap().is_dead(), "the dead do not return");
            Ok(2)
        }
        // The import's value for errors is 3.
        22 => Err(HostError::new("planned")),
        _ => Ok(0),
    }
}

#[test]
fn changes_in_the_middle_of_calls_give_nothing_away() {
    let seeds = std::env::var("SFI_CHANGES").ok().and_then(|text| text.parse().ok()).unwrap_or(60);
    let objects: Vec<Vec<u8>> = (0..4).map(|i| assemble(&text(0x1000 * (i + 1)))).collect();
    let mut all = [0; 6];
    for seed in 0..seeds {
        let mut random = ChaCha20Rng::seed_from_u64(seed);
        let mut builder = World::builder().permit("*", "*").timed();
        for (number, name) in NAMES.iter().enumerate() {
            let trust = |random: &mut ChaCha20Rng| Trust::ALL[random.next_u32() as usize % 3];
            let next = NAMES[(number + 1) % 4];
            let entry = |name: &str| Import::entry(format!("{name}.step")).signature(SIGNATURE);
            let mut spec = DomainSpec::new(*name)
                .object("step.o", objects[number].clone())
                .import("host", Import::host("host").signature(SIGNATURE).on_fault(3))
                .import("wrong", Import::host("wrong"))
                .import("x", Import::domain(next, "step").signature(SIGNATURE).trust(trust(&mut random)))
                .import("y", entry(NAMES[(number + 2) % 4]).trust(trust(&mut random)))
                .import("z", entry(NAMES[(number + 3) % 4]).trust(trust(&mut random)))
                .registers("step", Entry::function("step").signature(SIGNATURE))
                .spare_bindings(2)
                .mode(if random.next_u32().is_multiple_of(2) { Mode::Write } else { Mode::Full })
                .instructions(MOST);
            if random.next_u32().is_multiple_of(2) {
                spec = spec.restart(Restart::Always);
            }
            builder = builder.domain(spec);
        }
        let model = Model { random, fuel: 0, spent: HashMap::new(), all: [0; 3] };
        let model = Arc::new(Mutex::new(model));
        let (seen, wrong) = (Arc::clone(&model), Arc::clone(&model));
        let mut world = builder
            .shared_fn("host", move |cx| host(cx, &seen))
            .host_fn("wrong", move |cx| {
                lock(&wrong).all[2] += 1;
                Err(HostError::new(format!("registers of {}", cx.caller())))
            })
            .build()
            .unwrap();
        let instance = seed.is_multiple_of(2).then(|| world.instantiate("a").unwrap());
        for _ in 0..30 {
            let mut held = lock(&model);
            (held.fuel, held.spent) = (60, HashMap::new());
            let name = held.one_of(&["a", "b", "c", "d", INSTANCE]);
            drop(held);
            let Ok(domain) = world.domain(name) else { continue };
            match instance {
                Some(instance) if domain.is_dead() && name == INSTANCE => world.reset(instance).unwrap(),
                _ if domain.is_dead() => world.restart(name).unwrap(),
                _ => {}
            }
            let step: TypedFn<fn() -> u64> = world.domain(name).unwrap().export("step").unwrap();
            match step.call(&mut world, ()) {
                Ok(_) => {
                    assert!(!world.domain(name).unwrap().is_dead(), "seed {seed}: the dead do not return");
                    all[0] += 1;
                }
                Err(CallError::Fault(_)) => all[1] += 1,
                Err(other) => panic!("seed {seed}: {other}"),
            }
            let held = lock(&model);
            assert_eq!(held.all[2], 0, "seed {seed}: a domain found other registers");
            for (name, (tenant, spent)) in &held.spent {
                let domain = world.domain(name).unwrap();
                // A domain that died did not end its runs.
                if !domain.is_dead() && domain.tenant() == *tenant {
                    assert_eq!(domain.instructions_left(), Some(MOST - spent), "seed {seed}: domain {name}");
                    all[3] += 1;
                    all[5] += u64::from(name == INSTANCE);
                }
            }
        }
        all[2] += lock(&model).all[1];
        all[4] += lock(&model).all[0];
    }
    println!(
        "{} returns, {} faults, {} changes, {} rests compared, {} questions",
        all[0], all[1], all[2], all[3], all[4]
    );
    assert!(all.iter().all(|count| *count > seeds), "{all:?}");
}
