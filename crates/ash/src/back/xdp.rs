//! AF_XDP: the driver, or a short way through the kernel, writes frames into the memory that
//! handlers see. Needs CAP_NET_ADMIN and CAP_BPF.

use crate::back::{Area, Backend};
use crate::bpf::{self, Attach, Attached, Map, MapKind, Program};
use crate::head::Frame;
use crate::sys::{self, Epoll};
use crate::xsk::{Descriptor, ENTRIES, Socket};
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

/// Bytes of a chunk. Half of the chunks are for frames that arrive, the others for those that
/// leave.
const CHUNK: usize = 4096;
/// Bytes before a frame that the kernel keeps free.
const HEADROOM: usize = 256;
/// Bytes after a frame that the kernel keeps free for its own record in some drivers.
const TAILROOM: usize = 320;

/// A back end of AF_XDP.
#[derive(Debug)]
pub struct Xdp {
    // Dropped first: no frames arrive without the program.
    _attached: Attached,
    _sockets: Map,
    socket: Socket,
    area: Area,
    epoll: Epoll,
    free: Vec<u64>,
    mode: Attach,
    must_kick: bool,
}

impl Xdp {
    /// Takes the frames of one queue of an interface, in the driver's mode if it has one. The
    /// kernel's own protocols do not see them any more.
    ///
    /// # Errors
    /// The operating system's, with the step that it refused.
    pub fn listen(interface: &str, queue: u32) -> io::Result<Self> {
        let step =
            |step: &'static str| move |error: io::Error| io::Error::new(error.kind(), format!("{step}: {error}"));
        let index = sys::interface(interface).map_err(step("the interface"))?;
        let area = Area::new(u64::from(2 * ENTRIES) * CHUNK as u64, CHUNK - HEADROOM - TAILROOM)?;
        let sockets = Map::new(MapKind::Sockets, 4, queue + 1).map_err(step("a map of sockets"))?;
        let program = Program::load(&bpf::redirect(&sockets)).map_err(step("the program that redirects frames"))?;
        let native = program.attach(interface, Attach::Native).map(|attached| (attached, Attach::Native));
        let generic = |_| program.attach(interface, Attach::Generic).map(|attached| (attached, Attach::Generic));
        let (attached, mode) = native.or_else(generic).map_err(step("attaching the program"))?;
        let mut socket = Socket::open(&area.view, CHUNK as u32, index, queue).map_err(step("the socket"))?;
        let fd = socket.as_fd().as_raw_fd();
        sockets.set(queue, &fd.to_ne_bytes()).map_err(step("the socket's place in the map"))?;
        (0..u64::from(ENTRIES)).for_each(|chunk| _ = socket.fill.push(chunk * CHUNK as u64));
        let free = (u64::from(ENTRIES)..u64::from(2 * ENTRIES)).map(|chunk| chunk * CHUNK as u64).collect();
        let epoll = Epoll::new()?;
        epoll.add(socket.as_fd())?;
        let (_attached, _sockets, must_kick) = (attached, sockets, false);
        Ok(Self { _attached, _sockets, socket, area, epoll, free, mode, must_kick })
    }

    /// Says whether the driver writes to the memory itself. Otherwise the kernel copies each frame
    /// once.
    pub fn is_zero_copy(&self) -> bool {
        self.socket.zero_copy
    }

    /// Returns the mode of the program that redirects frames.
    pub fn mode(&self) -> Attach {
        self.mode
    }
}

impl Backend for Xdp {
    fn area(&self) -> &Area {
        &self.area
    }

    fn receive(&mut self, most: usize, frames: &mut Vec<Frame>) -> io::Result<()> {
        for _ in 0..most {
            let Some(descriptor) = self.socket.arrived.pop() else { break };
            frames.push(Frame { at: descriptor.at as usize, length: descriptor.length as usize });
        }
        Ok(())
    }

    fn release(&mut self, frame: Frame) {
        let chunk = frame.at - frame.at % CHUNK;
        // The ring has room for all chunks of frames that arrive.
        self.socket.fill.push(chunk as u64);
    }

    fn send(&mut self, frame: &[u8]) -> io::Result<()> {
        while let Some(at) = self.socket.completed.pop() {
            self.free.push(at - at % CHUNK as u64);
        }
        if frame.len() > self.longest() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let at = self.free.pop().ok_or(io::ErrorKind::WouldBlock)?;
        self.area.view.write(at as usize, frame).expect("the chunk lies in the memory");
        match self.socket.leaving.push(Descriptor::new(at, frame.len() as u32)) {
            true => {
                self.must_kick = true;
                Ok(())
            }
            false => {
                self.free.push(at);
                Err(io::ErrorKind::WouldBlock.into())
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        if !self.must_kick {
            return Ok(());
        }
        match self.socket.kick() {
            // The kernel takes some frames at a time, and the others with the next call.
            Err(error) if matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EBUSY | libc::ENOBUFS)) => {}
            other => other?,
        }
        self.must_kick = self.socket.leaving.filled() > 0;
        Ok(())
    }

    fn wait(&mut self, time: Duration) -> io::Result<bool> {
        if self.socket.arrived.filled() > 0 {
            return Ok(true);
        }
        self.epoll.wait(time)
    }
}
