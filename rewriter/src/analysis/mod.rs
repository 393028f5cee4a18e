//! Facts about the program. Nothing here changes code.

pub(crate) mod count;
pub(crate) mod depth;
pub(crate) mod flow;
pub(crate) mod frame_walk;
pub(crate) mod height;
pub(crate) mod jumps;
pub(crate) mod live;
pub(crate) mod own;
pub(crate) mod pads;
pub(crate) mod r15;
pub(crate) mod reach;
pub(crate) mod receive;
pub(crate) mod regs;
