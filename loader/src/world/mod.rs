//! A world: domains that call each other, entered by one thread at a time.

pub(crate) mod api;
pub(crate) mod berths;
pub(crate) mod bindings;
pub(crate) mod build;
pub(crate) mod builder;
pub(crate) mod calls;
pub(crate) mod check;
pub(crate) mod crossing;
pub(crate) mod domain;
pub(crate) mod domain_ref;
pub(crate) mod error;
pub(crate) mod failure;
pub(crate) mod fork;
pub(crate) mod frames;
pub(crate) mod held;
pub(crate) mod idle;
pub(crate) mod ifunc;
pub(crate) mod inner;
pub(crate) mod instances;
pub(crate) mod lanes;
pub(crate) mod links;
pub(crate) mod lives;
pub(crate) mod owner;
pub(crate) mod start;
pub(crate) mod threads;
