//! The manager (Yarvin et al. section 3.2.1): entry points that servers register, and connections
//! of clients by name.
//!
//! A binding is a record outside every window. A stub finds it by its number. So connecting and
//! disconnecting write the record and never touch sealed text. A record without a server leads to a
//! domain that nobody can enter.

pub(crate) mod connect;
pub(crate) mod connections;
pub(crate) mod described;
pub(crate) mod lend;
pub(crate) mod lendings;
pub(crate) mod manage;
pub(crate) mod manager;
pub(crate) mod policy;
pub(crate) mod record;
pub(crate) mod reload;
pub(crate) mod set_up;
pub(crate) mod visibility;
pub(crate) mod write;
