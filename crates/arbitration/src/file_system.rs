//! The file systems and kinds of files that a domain may reach through a granted directory.
//!
//! A directory can lead to more than data: `/proc/self/mem` is this process's memory, and `/sys`
//! and `/dev` are the machine. So a list holds the file systems that keep ordinary files, and only
//! regular files and directories can be opened. The host can grant a single file of any kind by its
//! own name ([`crate::Preopen::file`]).

use crate::errno::Errno;
use rustix::fs::{FileType, Stat};
use std::os::fd::AsFd;

/// Magic numbers (statfs(2)) of file systems that hold files for their users. Other file systems
/// belong to the kernel, or were never reviewed.
const ORDINARY: &[u32] = &[
    0x0000_ef53, // ext2, ext3, ext4
    0x5846_5342, // xfs
    0x9123_683e, // btrfs
    0xca45_1a4e, // bcachefs
    0x2fc1_2fc1, // zfs
    0xf2f5_2010, // f2fs
    0x3153_464a, // jfs
    0x5265_4973, // reiserfs
    0x0000_3434, // nilfs2
    0x7461_636f, // ocfs2
    0x0116_1970, // gfs2
    0x0102_1994, // tmpfs
    0x8584_58f6, // ramfs
    0x794c_7630, // overlayfs
    0x6175_6673, // aufs
    0x0000_f15f, // ecryptfs
    0x0000_6969, // nfs
    0xff53_4d42, // cifs
    0xfe53_4d42, // smb2
    0x0102_1997, // 9p
    0x00c3_6400, // ceph
    0x5346_414f, // afs
    0x0bd0_0bd0, // lustre
    0x6573_5546, // fuse, virtiofs
    0x786f_4256, // vboxsf
    0xbacb_acbc, // vmhgfs
    0x5346_4846, // wslfs
    0x0000_4d44, // vfat
    0x2011_bab0, // exfat
    0x5346_544e, // ntfs
    0x7366_746e, // ntfs3
    0x0000_482b, // hfs+
    0x0000_9660, // iso9660
    0x1501_3346, // udf
    0x7371_7368, // squashfs
    0xe0f5_e1e2, // erofs
    0x28cd_3d45, // cramfs
    0x0000_7275, // romfs
    0x2405_1905, // ubifs
    0x0000_72b6, // jffs2
    0x0000_2468, // minix, version 2
    0x0000_4d5a, // minix, version 3
    0x0001_1954, // ufs
];

/// Says whether the file system of a descriptor holds ordinary files.
pub(crate) fn ordinary(fd: impl AsFd) -> Result<bool, Errno> {
    // The type of `f_type` differs between targets. Magic numbers have 32 bits.
    Ok(ORDINARY.contains(&(rustix::fs::fstatfs(fd)?.f_type as u32)))
}

/// Returns the kind of a file.
pub(crate) fn kind(stat: &Stat) -> FileType {
    FileType::from_raw_mode(stat.st_mode)
}

/// Refuses devices, FIFOs, sockets and all other files but regular ones and directories.
pub(crate) fn plain(stat: &Stat) -> Result<(), Errno> {
    match kind(stat) {
        FileType::RegularFile | FileType::Directory => Ok(()),
        FileType::Symlink => Err(Errno(libc::ELOOP)),
        _ => Err(Errno::ACCES),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    #[test]
    fn the_kernels_own_file_systems_are_not_ordinary() {
        for (path, expected) in [
            ("/proc/self", false),
            ("/proc", false),
            ("/sys", false),
            ("/sys/kernel", false),
            ("/tmp", true),
            (".", true),
        ] {
            let file = File::open(path).unwrap_or_else(|e| panic!("{path}: {e}"));
            assert_eq!(ordinary(&file), Ok(expected), "{path}");
        }
        let (read, _) = rustix::pipe::pipe().expect("pipe");
        assert_eq!(ordinary(&read), Ok(false));
        let event = rustix::fs::memfd_create("test", rustix::fs::MemfdFlags::CLOEXEC).expect("memfd");
        // A memfd is a file of tmpfs. Only the names in /proc/self/fd lead to it, and /proc is
        // closed.
        assert_eq!(ordinary(&event), Ok(true));
    }
}
