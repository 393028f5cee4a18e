//! Calls between the host and domains, in both directions.

pub(crate) mod buffers_in;
pub(crate) mod buffers_out;
pub(crate) mod builtin;
pub(crate) mod call;
pub(crate) mod dynamic;
pub(crate) mod functions;
pub(crate) mod header;
pub(crate) mod host;
pub(crate) mod host_call;
pub(crate) mod native;
pub(crate) mod prepared;
pub(crate) mod shim;
pub(crate) mod values;
