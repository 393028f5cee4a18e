//! One side of a connection: the slow path of the receiver, and the sender.

use super::block::{Block, Memory};
use super::segment::{ACK, Address, FIN, PUSH, RST, SYN, Segment};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// The time after which a segment is sent again. It doubles each time.
const RETRANSMIT: Duration = Duration::from_millis(200);
/// The longest such time.
const PATIENCE: Duration = Duration::from_secs(10);
/// The longest time until a segment is acknowledged.
const DELAY: Duration = Duration::from_millis(40);
/// Bytes that wait to be sent or acknowledged.
const QUEUE: usize = 64 << 10;
/// Segments that came too early.
const EARLY: usize = 256;

/// The progress of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// It waits for a SYN.
    Listening,
    /// It sent a SYN.
    Asked,
    /// It answered a SYN.
    Answered,
    /// Data flows.
    Open,
    /// The other side, or a damaged block, ended it.
    Reset,
}

/// One side of a connection.
#[derive(Debug)]
pub struct Endpoint {
    own: Address,
    peer: Option<Address>,
    memory: Memory,
    stage: Stage,
    /// Most bytes of a segment, in either direction.
    most: u16,
    /// Bytes from `first` on. With `closing` a FIN follows them.
    queue: VecDeque<u8>,
    first: u32,
    next: u32,
    closing: bool,
    closed: bool,
    /// Data that came too early, by its place in the stream.
    early: BTreeMap<u64, Vec<u8>>,
    /// Place of the other side's FIN in the stream.
    end: Option<u64>,
    ended: bool,
    /// When to send again.
    again: Option<Duration>,
    tries: u32,
    /// When to acknowledge.
    answer: Option<Duration>,
    /// Frames that were put off.
    late: VecDeque<Vec<u8>>,
    out: Vec<Vec<u8>>,
}

/// Says whether a number of a sequence comes before another one.
fn before(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) < 0
}

impl Endpoint {
    /// Waits for a connection. `initial` is the number of its SYN, and `most` the bytes of a
    /// segment.
    pub fn listen(own: Address, memory: Memory, initial: u32, most: u16) -> Self {
        let mut endpoint = Self {
            own,
            peer: None,
            memory,
            stage: Stage::Listening,
            most,
            queue: VecDeque::new(),
            first: initial,
            next: initial,
            closing: false,
            closed: false,
            early: BTreeMap::new(),
            end: None,
            ended: false,
            again: None,
            tries: 0,
            answer: None,
            late: VecDeque::new(),
            out: Vec::new(),
        };
        let size = endpoint.memory.size() as u32;
        endpoint.memory.set_taken(0);
        endpoint.memory.set_block(&Block { first: initial, most: initial, size, ..Block::default() });
        endpoint
    }

    /// Opens a connection.
    pub fn connect(own: Address, peer: Address, memory: Memory, initial: u32, most: u16, now: Duration) -> Self {
        let mut endpoint = Self::listen(own, memory, initial, most);
        endpoint.peer = Some(peer);
        endpoint.stage = Stage::Asked;
        endpoint.begin(now);
        endpoint
    }

    /// Returns the progress.
    pub fn stage(&self) -> Stage {
        self.stage
    }

    /// Says whether both sides have sent all their data, and this side knows it.
    pub fn is_over(&self) -> bool {
        self.ended && self.closed
    }

    /// Says whether all data of the other side has been read.
    pub fn is_at_end(&self) -> bool {
        self.ended && self.memory.block().arrived == self.memory.taken()
    }

    /// Returns the memory.
    pub fn memory(&mut self) -> &mut Memory {
        &mut self.memory
    }

    /// Takes the frames that are to be sent.
    pub fn take(&mut self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.out)
    }

    /// Sends data. Returns the number of bytes that it took.
    pub fn write(&mut self, data: &[u8], now: Duration) -> usize {
        let count = data.len().min(QUEUE - self.queue.len());
        if self.closing {
            return 0;
        }
        self.queue.extend(&data[..count]);
        self.poll(now);
        count
    }

    /// Sends no more data.
    pub fn close(&mut self, now: Duration) {
        self.closing = true;
        self.poll(now);
    }

    /// Reads data. Returns the number of bytes.
    pub fn read(&mut self, out: &mut [u8]) -> usize {
        let (waiting, taken) = (self.memory.waiting(), self.memory.taken());
        let count = waiting.min(out.len());
        self.memory.get(taken, &mut out[..count]);
        self.skip(count);
        count
    }

    /// Takes bytes that were read where they lie, and offers their room once it is worth a segment.
    pub fn skip(&mut self, count: usize) {
        let taken = self.memory.taken().wrapping_add(count as u64);
        self.memory.set_taken(taken);
        let block = self.memory.block();
        let edge = block.expected.wrapping_add(self.window(&block));
        let opened = edge.wrapping_sub(block.edge) as i32;
        let worth = (2 * usize::from(self.most)).min(self.memory.size() / 2) as i32;
        if self.stage == Stage::Open && !self.ended && opened >= worth && self.window(&block) as i32 - opened < worth {
            self.acknowledge();
        }
    }

    /// Looks at what the fast path did, sends what the window allows, and obeys the time.
    pub fn poll(&mut self, now: Duration) {
        while let Some(frame) = self.late.pop_front() {
            self.receive(&frame, now);
        }
        self.look(now);
        if self.again.is_some_and(|again| again <= now) {
            self.again = None;
            self.tries += 1;
            match self.stage {
                Stage::Asked | Stage::Answered => self.begin(now),
                Stage::Open => self.repeat(),
                Stage::Listening | Stage::Reset => {}
            }
        }
        self.send(now);
        match (self.memory.block().owed, self.answer) {
            (0, _) => self.answer = None,
            (_, None) => self.answer = Some(now + DELAY),
            (_, Some(time)) if time <= now => self.acknowledge(),
            _ => {}
        }
    }

    /// Returns the time at which [`Endpoint::poll`] has something to do.
    pub fn deadline(&self) -> Option<Duration> {
        let owes = self.memory.block().owed > 0 && self.answer.is_none();
        [self.again, self.answer, owes.then_some(Duration::ZERO)].into_iter().flatten().min()
    }

    /// Takes a frame that the fast path did not take, but only with the next [`Endpoint::poll`].
    /// The fast path takes none until then, so bytes stay in order.
    pub fn put_off(&mut self, frame: Vec<u8>) {
        self.late.push_back(frame);
        self.admit();
    }

    /// Lets the fast path take segments, or keeps it from doing so.
    fn admit(&mut self) {
        let is_behind = !self.early.is_empty() || self.end.is_some() || !self.late.is_empty();
        let live = self.stage == Stage::Open && !is_behind;
        self.change(|block| block.live = u32::from(live));
    }

    /// Takes a frame that the fast path did not take.
    pub fn receive(&mut self, frame: &[u8], now: Duration) {
        self.look(now);
        let Some(segment) = Segment::parse(frame).filter(|segment| segment.to == self.own) else { return };
        if self.peer.is_some_and(|peer| peer != segment.from) {
            return;
        }
        match self.stage {
            Stage::Listening if segment.flags & (SYN | ACK | RST) == SYN => {
                self.peer = Some(segment.from);
                self.stage = Stage::Answered;
                self.meet(&segment);
                self.begin(now);
            }
            Stage::Asked if segment.flags & (SYN | ACK | RST) == SYN | ACK && self.is_answer(&segment) => {
                self.meet(&segment);
                self.open(&segment);
                self.acknowledge();
            }
            Stage::Answered if segment.flags & SYN != 0 => self.begin(now),
            Stage::Answered if segment.flags & (ACK | RST) == ACK && self.is_answer(&segment) => {
                self.open(&segment);
                self.continue_with(&segment, now);
            }
            Stage::Open => self.continue_with(&segment, now),
            _ => {}
        }
        self.admit();
        self.send(now);
    }

    fn is_answer(&self, segment: &Segment<'_>) -> bool {
        segment.acknowledged == self.first.wrapping_add(1)
    }

    /// Learns the other side's numbers from its SYN.
    fn meet(&mut self, segment: &Segment<'_>) {
        self.most = self.most.min(segment.most.unwrap_or(536)).max(1);
        self.change(|block| {
            block.expected = segment.sequence.wrapping_add(1);
            block.window = u32::from(segment.window);
        });
    }

    fn change(&mut self, change: impl FnOnce(&mut Block)) -> Block {
        let mut block = self.memory.block();
        change(&mut block);
        self.memory.set_block(&block);
        block
    }

    /// Sends a SYN.
    fn begin(&mut self, now: Duration) {
        let flags = if self.stage == Stage::Asked { SYN } else { SYN | ACK };
        self.change(|block| block.most = block.first.wrapping_add(1));
        self.emit(self.first, flags, Vec::new());
        self.again = Some(now + self.pause());
    }

    /// Opens the connection once the SYN is acknowledged.
    fn open(&mut self, segment: &Segment<'_>) {
        self.first = self.first.wrapping_add(1);
        self.next = self.first;
        self.stage = Stage::Open;
        (self.again, self.tries) = (None, 0);
        let peer = self.peer.expect("the other side is known").socket;
        let (from, to) = (peer.port().to_be_bytes(), self.own.socket.port().to_be_bytes());
        let (first, own) = (self.first, *self.own.socket.ip());
        self.change(|block| {
            (block.first, block.most) = (first, first);
            block.window = u32::from(segment.window);
            block.peer = u32::from_le_bytes(peer.ip().octets());
            block.own = u32::from_le_bytes(own.octets());
            block.ports = u32::from_le_bytes([from[0], from[1], to[0], to[1]]);
        });
    }

    /// Takes acknowledgements of the fast path, or of a segment, into account.
    fn look(&mut self, now: Duration) {
        let block = self.memory.block();
        let count = block.first.wrapping_sub(self.first) as usize;
        if self.stage != Stage::Open || count == 0 {
            return;
        }
        if count > self.queue.len() + usize::from(self.closing) {
            // No segment acknowledges more than was sent: somebody damaged the block.
            return self.reset();
        }
        self.closed = count > self.queue.len();
        self.queue.drain(..count.min(self.queue.len()));
        self.first = block.first;
        if before(self.next, self.first) {
            self.next = self.first;
        }
        self.tries = 0;
        self.again = (block.first != block.most).then(|| now + self.pause());
    }

    fn reset(&mut self) {
        self.stage = Stage::Reset;
        (self.again, self.answer) = (None, None);
        self.change(|block| block.owed = 0);
        self.admit();
    }

    fn pause(&self) -> Duration {
        (RETRANSMIT * (1 << self.tries.min(6))).min(PATIENCE)
    }

    /// Takes a segment of an open connection.
    fn continue_with(&mut self, segment: &Segment<'_>, now: Duration) {
        let block = self.memory.block();
        if segment.flags & RST != 0 {
            if segment.sequence == block.expected {
                self.reset();
            }
            return;
        }
        if segment.flags & SYN != 0 {
            return self.acknowledge();
        }
        if segment.flags & ACK == 0 {
            return;
        }
        let acknowledged = segment.acknowledged.wrapping_sub(block.first);
        if acknowledged <= block.most.wrapping_sub(block.first) {
            self.change(|block| {
                block.first = segment.acknowledged;
                block.window = u32::from(segment.window);
            });
            self.look(now);
            if block.window == 0 && segment.window > 0 {
                self.next = self.first;
            }
        }
        if segment.data.is_empty() && segment.flags & FIN == 0 {
            if before(segment.sequence, block.expected) {
                self.acknowledge();
            }
        } else {
            self.data(segment, &block);
        }
    }

    /// Takes the data of a segment.
    fn data(&mut self, segment: &Segment<'_>, block: &Block) {
        let ahead = segment.sequence.wrapping_sub(block.expected) as i32;
        let old = usize::try_from(-i64::from(ahead)).unwrap_or(0);
        let room = self.memory.room(block) as i64;
        let is_new = old < segment.data.len() || (old == segment.data.len() && segment.flags & FIN != 0);
        if self.ended || !is_new || i64::from(ahead) + segment.data.len() as i64 > room {
            return self.acknowledge();
        }
        let place = block.arrived.wrapping_add(ahead.max(0) as u64);
        let data = &segment.data[old.min(segment.data.len())..];
        if segment.flags & FIN != 0 {
            self.end = Some(place + data.len() as u64);
        }
        if ahead > 0 {
            if self.early.len() < EARLY && self.early.get(&place).is_none_or(|known| known.len() < data.len()) {
                self.early.insert(place, data.to_vec());
            }
        } else {
            self.deliver(data);
            self.deliver_early();
        }
        let at_end = self.end == Some(self.memory.block().arrived);
        self.ended |= at_end;
        let is_behind = !self.early.is_empty() || self.end.is_some();
        let after = self.change(|block| {
            block.expected = block.expected.wrapping_add(u32::from(at_end));
            block.owed += 1;
        });
        if after.owed >= 2 || is_behind || ahead > 0 {
            self.acknowledge();
        }
    }

    fn deliver(&mut self, data: &[u8]) {
        let arrived = self.memory.block().arrived;
        self.memory.put(arrived, data);
        self.change(|block| {
            block.arrived = arrived.wrapping_add(data.len() as u64);
            block.expected = block.expected.wrapping_add(data.len() as u32);
        });
    }

    /// Delivers data that came too early and is now in order.
    fn deliver_early(&mut self) {
        while let Some(entry) = self.early.first_entry() {
            let arrived = self.memory.block().arrived;
            if *entry.key() > arrived {
                return;
            }
            let known = (arrived - entry.key()) as usize;
            let data = entry.remove();
            self.deliver(data.get(known..).unwrap_or(&[]));
        }
    }

    /// Returns the window to offer.
    fn window(&self, block: &Block) -> u32 {
        self.memory.room(block).min(usize::from(u16::MAX)) as u32
    }

    fn acknowledge(&mut self) {
        self.emit(self.memory.block().most, ACK, Vec::new());
    }

    /// Sends from the oldest byte on again. A window of none is asked with one byte.
    fn repeat(&mut self) {
        self.next = self.first;
        if self.memory.block().window == 0 && !self.queue.is_empty() {
            self.transmit(1, false);
        }
    }

    /// Sends the next bytes of the queue.
    fn transmit(&mut self, count: usize, fin: bool) {
        let offset = self.next.wrapping_sub(self.first) as usize;
        let data: Vec<u8> = self.queue.range(offset..offset + count).copied().collect();
        let is_last = offset + count == self.queue.len();
        let flags = ACK | if is_last { PUSH } else { 0 } | if fin { FIN } else { 0 };
        let sequence = self.next;
        self.next = sequence.wrapping_add(count as u32 + u32::from(fin));
        let next = self.next;
        self.change(|block| {
            if before(block.most, next) {
                block.most = next;
            }
        });
        self.emit(sequence, flags, data);
    }

    /// Sends what the other side has room for.
    fn send(&mut self, now: Duration) {
        if self.stage != Stage::Open {
            return;
        }
        loop {
            let offset = self.next.wrapping_sub(self.first) as usize;
            let Some(left) = self.queue.len().checked_sub(offset) else { break };
            let usable = (self.memory.block().window as usize).saturating_sub(offset);
            let count = left.min(usable).min(usize::from(self.most));
            let fin = self.closing && !self.closed && count == left;
            let is_small = count < left && count < usize::from(self.most) && offset > 0;
            if !fin && (count == 0 || is_small) {
                break;
            }
            self.transmit(count, fin);
        }
        let waits = self.next != self.first || !self.queue.is_empty();
        if waits && self.again.is_none() {
            self.again = Some(now + self.pause());
        }
    }

    /// Makes a segment, which also acknowledges.
    fn emit(&mut self, sequence: u32, flags: u8, data: Vec<u8>) {
        let Some(to) = self.peer else { return };
        let block = self.memory.block();
        let window = self.window(&block);
        let segment = Segment {
            from: self.own,
            to,
            sequence,
            acknowledged: if flags & ACK == 0 { 0 } else { block.expected },
            flags,
            window: window as u16,
            most: (flags & SYN != 0).then_some(self.most),
            data: &data,
        };
        self.out.push(segment.frame());
        self.answer = None;
        self.change(|block| {
            block.owed = 0;
            block.edge = block.expected.wrapping_add(window);
        });
    }
}
