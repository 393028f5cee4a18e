//! A socket of AF_XDP and its four rings, which the kernel shares.
#![allow(unsafe_code)]

use crate::sys::check;
use sfi_loader::View;
use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

/// Entries of each ring.
pub(crate) const ENTRIES: u32 = 256;

/// A mapping of the kernel's memory.
#[derive(Debug)]
struct Mapping {
    at: NonNull<u8>,
    length: usize,
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping belongs to this value.
        unsafe { libc::munmap(self.at.as_ptr().cast(), self.length) };
    }
}

/// One ring. This side either produces entries or consumes them.
#[derive(Debug)]
pub(crate) struct Ring<T> {
    mapping: Mapping,
    producer: usize,
    consumer: usize,
    entries: usize,
    kind: std::marker::PhantomData<T>,
}

// SAFETY: the mapping belongs to the value, and the kernel does not mind which thread uses it.
unsafe impl<T> Send for Ring<T> {}

impl<T: Copy> Ring<T> {
    fn map(socket: &OwnedFd, place: i64, offsets: &libc::xdp_ring_offset) -> io::Result<Self> {
        let length = offsets.desc as usize + ENTRIES as usize * size_of::<T>();
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_SHARED | libc::MAP_POPULATE;
        // SAFETY: a fresh mapping of the socket's ring, whose layout the kernel told.
        let at = unsafe { libc::mmap(std::ptr::null_mut(), length, protection, flags, socket.as_raw_fd(), place) };
        if at == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let mapping = Mapping { at: NonNull::new(at.cast()).expect("a mapping lies elsewhere"), length };
        let [producer, consumer, entries] = [offsets.producer, offsets.consumer, offsets.desc].map(|at| at as usize);
        Ok(Self { mapping, producer, consumer, entries, kind: std::marker::PhantomData })
    }

    fn counter(&self, at: usize) -> &AtomicU32 {
        // SAFETY: the kernel told this offset of an aligned counter, and uses it atomically.
        unsafe { self.mapping.at.add(at).cast::<AtomicU32>().as_ref() }
    }

    fn entry(&self, index: u32) -> *mut T {
        let index = (index & (ENTRIES - 1)) as usize;
        // SAFETY: the index is below the number of entries, all of which lie in the mapping.
        unsafe { self.mapping.at.add(self.entries).cast::<T>().add(index).as_ptr() }
    }

    /// Returns the number of entries between the counters.
    pub(crate) fn filled(&self) -> u32 {
        let producer = self.counter(self.producer).load(Ordering::Acquire);
        producer.wrapping_sub(self.counter(self.consumer).load(Ordering::Acquire))
    }

    /// Produces an entry. Returns false if the ring is full.
    pub(crate) fn push(&mut self, entry: T) -> bool {
        if self.filled() >= ENTRIES {
            return false;
        }
        let producer = self.counter(self.producer).load(Ordering::Relaxed);
        // SAFETY: the entry lies in the mapping. The kernel reads it after the counter moved.
        unsafe { self.entry(producer).write(entry) };
        self.counter(self.producer).store(producer.wrapping_add(1), Ordering::Release);
        true
    }

    /// Consumes an entry.
    pub(crate) fn pop(&mut self) -> Option<T> {
        if self.filled() == 0 {
            return None;
        }
        let consumer = self.counter(self.consumer).load(Ordering::Relaxed);
        // SAFETY: the entry lies in the mapping. The kernel wrote it before the counter moved.
        let entry = unsafe { self.entry(consumer).read() };
        self.counter(self.consumer).store(consumer.wrapping_add(1), Ordering::Release);
        Some(entry)
    }
}

/// A frame in a ring.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Descriptor {
    /// Place in the memory.
    pub at: u64,
    /// Length in bytes.
    pub length: u32,
    options: u32,
}

impl Descriptor {
    /// Describes a frame.
    pub(crate) fn new(at: u64, length: u32) -> Self {
        Self { at, length, options: 0 }
    }
}

/// A socket that is bound to a queue of an interface.
#[derive(Debug)]
pub(crate) struct Socket {
    fd: OwnedFd,
    /// Places for frames that will arrive.
    pub fill: Ring<u64>,
    /// Places of frames that left.
    pub completed: Ring<u64>,
    /// Frames that arrived.
    pub arrived: Ring<Descriptor>,
    /// Frames that are to leave.
    pub leaving: Ring<Descriptor>,
    /// The driver writes to the memory itself.
    pub zero_copy: bool,
}

fn option<T>(fd: &OwnedFd, name: libc::c_int, value: &T) -> io::Result<()> {
    let length = size_of::<T>() as libc::socklen_t;
    // SAFETY: the value lives during the call, and its size is passed.
    check(unsafe { libc::setsockopt(fd.as_raw_fd(), libc::SOL_XDP, name, std::ptr::from_ref(value).cast(), length) })?;
    Ok(())
}

impl Socket {
    /// Opens a socket for frames in this memory, in chunks of `chunk` bytes, and binds it. The
    /// kernel pins the memory, so the view's file must live as long as the socket.
    pub(crate) fn open(view: &View, chunk: u32, interface: u32, queue: u32) -> io::Result<Self> {
        match Self::open_with(view, chunk, interface, queue, libc::XDP_ZEROCOPY) {
            Err(error) if error.kind() != io::ErrorKind::PermissionDenied => {
                Self::open_with(view, chunk, interface, queue, libc::XDP_COPY)
            }
            other => other,
        }
    }

    fn open_with(view: &View, chunk: u32, interface: u32, queue: u32, mode: u16) -> io::Result<Self> {
        // SAFETY: no memory is passed.
        let fd = check(unsafe { libc::socket(libc::AF_XDP, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) })?;
        // SAFETY: the descriptor is new and belongs to nobody else.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        // SAFETY: all zeroes are a valid value.
        let mut memory: libc::xdp_umem_reg = unsafe { zeroed() };
        memory.addr = view.as_ptr() as u64;
        memory.len = view.len() as u64;
        memory.chunk_size = chunk;
        option(&fd, libc::XDP_UMEM_REG, &memory)?;
        for name in [libc::XDP_UMEM_FILL_RING, libc::XDP_UMEM_COMPLETION_RING, libc::XDP_RX_RING, libc::XDP_TX_RING] {
            option(&fd, name, &ENTRIES)?;
        }
        // SAFETY: all zeroes are a valid value.
        let mut offsets: libc::xdp_mmap_offsets = unsafe { zeroed() };
        let mut length = size_of::<libc::xdp_mmap_offsets>() as libc::socklen_t;
        // SAFETY: the value lives during the call, and its size is passed.
        check(unsafe {
            let value = (&raw mut offsets).cast();
            libc::getsockopt(fd.as_raw_fd(), libc::SOL_XDP, libc::XDP_MMAP_OFFSETS, value, &mut length)
        })?;
        let fill = Ring::map(&fd, libc::XDP_UMEM_PGOFF_FILL_RING as i64, &offsets.fr)?;
        let completed = Ring::map(&fd, libc::XDP_UMEM_PGOFF_COMPLETION_RING as i64, &offsets.cr)?;
        let arrived = Ring::map(&fd, libc::XDP_PGOFF_RX_RING, &offsets.rx)?;
        let leaving = Ring::map(&fd, libc::XDP_PGOFF_TX_RING, &offsets.tx)?;
        // SAFETY: all zeroes are a valid value.
        let mut address: libc::sockaddr_xdp = unsafe { zeroed() };
        address.sxdp_family = libc::AF_XDP as u16;
        address.sxdp_flags = mode;
        address.sxdp_ifindex = interface;
        address.sxdp_queue_id = queue;
        let size = size_of::<libc::sockaddr_xdp>() as libc::socklen_t;
        // SAFETY: the address lives during the call.
        check(unsafe { libc::bind(fd.as_raw_fd(), (&raw const address).cast(), size) })?;
        let zero_copy = mode == libc::XDP_ZEROCOPY;
        Ok(Self { fd, fill, completed, arrived, leaving, zero_copy })
    }

    /// Tells the kernel that frames are to leave.
    pub(crate) fn kick(&self) -> io::Result<()> {
        // SAFETY: no memory is passed.
        let sent =
            unsafe { libc::sendto(self.fd.as_raw_fd(), std::ptr::null(), 0, libc::MSG_DONTWAIT, std::ptr::null(), 0) };
        match sent < 0 {
            true => Err(io::Error::last_os_error()),
            false => Ok(()),
        }
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
