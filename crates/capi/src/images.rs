//! Images that the processes of a host pass to each other as sealed memory files.

use crate::user::User;
use sfi_loader::ImageFiles;
use std::ffi::{c_int, c_uchar, c_void};
use std::os::fd::{FromRawFd, IntoRawFd, OwnedFd};

/// `sfi_image_find_fn`
pub type sfi_image_find_fn = Option<unsafe extern "C-unwind" fn(user: *mut c_void, name: *const c_uchar) -> c_int>;
/// `sfi_image_keep_fn`
pub type sfi_image_keep_fn = Option<unsafe extern "C-unwind" fn(user: *mut c_void, name: *const c_uchar, file: c_int)>;

/// The host's functions.
#[derive(Debug)]
pub(crate) struct Images {
    pub(crate) find: sfi_image_find_fn,
    pub(crate) keep: sfi_image_keep_fn,
    pub(crate) user: User,
}

impl ImageFiles for Images {
    fn find(&self, name: &[u8; 32]) -> Option<OwnedFd> {
        // SAFETY: a function of the host with its own pointer; the name lives until it returns.
        let file = unsafe { self.find?(self.user.get(), name.as_ptr()) };
        // SAFETY: the host gives the descriptor away, as sfi.h says.
        (file >= 0).then(|| unsafe { OwnedFd::from_raw_fd(file) })
    }

    fn keep(&self, name: &[u8; 32], file: OwnedFd) {
        if let Some(keep) = self.keep {
            // SAFETY: as above. The host closes the file.
            unsafe { keep(self.user.get(), name.as_ptr(), file.into_raw_fd()) };
        }
    }
}
