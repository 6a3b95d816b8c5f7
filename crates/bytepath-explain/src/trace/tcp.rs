//! Bytes of each TCP connection, as the traced processes' system calls moved them, and what the kernel
//! says of it when it ends.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use rustix::io::Errno;

use super::TraceError;
use super::asm::{Alu, Asm, Helper, If, Label, Reg, Size};
use super::attach::Attached;
use super::calls::{ENTER, EXIT};
use super::descriptors::{self, BELOW, Does, Kind, Kinds, MOVED};
use super::files::{reserve, submit};
use super::hook::{Event, Hook, Unknown, Value, chase};
use super::largest::{Largest, Moved};
use super::tasks::{Lost, Tasks, WHO, number, wide};
use crate::sys::bpf::{Map, MapKind};
use crate::sys::bpf_ring::Ring;

const SET_STATE: Event = Event { group: "sock", name: "inet_sock_set_state" };
/// Nobody has it any more. Until then, what came before its end may still be read.
const DESTROYED: Event = Event { group: "tcp", name: "tcp_destroy_sock" };
const SOCKET: Value = Value { argument: ("sk", 0), member: None, field: "skaddr" };
const NEW_STATE: Value = Value { argument: ("newstate", 2), member: None, field: "newstate" };
/// include/net/tcp_states.h
const TCP_CLOSE: i32 = 7;

const CONNECTIONS_MAX: u32 = 16_384;
const RING_BYTES: usize = 1 << 20;

/// What a connection's record has where.
mod connection {
    pub(super) const FIRST_NS: i16 = 0;
    pub(super) const SENDS: i16 = 8;
    pub(super) const SENT_BYTES: i16 = 16;
    pub(super) const RECEIVES: i16 = 24;
    pub(super) const RECEIVED_BYTES: i16 = 32;
    pub(super) const WHO: i16 = 40;
    pub(super) const FAMILY: i16 = 44;
    pub(super) const LOCAL_PORT: i16 = 48;
    pub(super) const REMOTE_PORT: i16 = 52;
    pub(super) const LOCAL: i16 = 56;
    pub(super) const REMOTE: i16 = 72;
    /// 0 until its end, from which on the two that follow are known.
    pub(super) const CLOSED_NS: i16 = 88;
    pub(super) const RETRANSMITTED: i16 = 96;
    pub(super) const ROUND_TRIP: i16 = 100;
    pub(super) const BYTES: i16 = 104;
}

const SOCK: i16 = BELOW - 8;
const VALUE: i16 = SOCK - connection::BYTES;

/// The maps of this mode.
#[derive(Debug)]
pub(super) struct Tcp {
    pub(super) kinds: Kinds,
    connections: Map,
}

/// One connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) local: (IpAddr, u16),
    pub(super) remote: (IpAddr, u16),
    /// Who used it first, as its name is kept.
    pub(super) who: u32,
    pub(super) first_ns: u64,
    pub(super) closed_ns: Option<u64>,
    pub(super) sends: u64,
    pub(super) sent_bytes: u64,
    pub(super) receives: u64,
    pub(super) received_bytes: u64,
    /// Segments that were sent again; known at the end only.
    pub(super) retransmitted: Option<u32>,
    /// The smoothed round trip; known at the end only, where one was measured.
    pub(super) round_trip_us: Option<u32>,
}

impl Tcp {
    pub(super) fn new() -> Result<Tcp, Errno> {
        let value = connection::BYTES as usize;
        let connections = Map::new(MapKind::Hash, "bp_tcp", 8, value, CONNECTIONS_MAX)?;
        Ok(Tcp { kinds: Kinds::new()?, connections })
    }

    pub(super) fn ring() -> Result<Ring, Errno> {
        Ring::new("bp_records", RING_BYTES)
    }

    pub(super) fn attach(
        &self,
        tasks: &Tasks,
        ring: &Map,
        attached: &mut Attached<'_>,
    ) -> Result<(), TraceError> {
        attached.on(SET_STATE, |hook| self.on_state(hook))?;
        attached.on(DESTROYED, |hook| self.on_destroyed(hook, tasks, ring))?;
        attached.on(EXIT, |hook| self.on_exit(hook, tasks, ring))?;
        attached.on(ENTER, |hook| {
            let mut asm = hook.begin();
            let end = asm.label();
            self.kinds.entered(hook, tasks, &mut asm, end)?;
            asm.end(end);
            Ok(asm)
        })
    }

    fn on_exit(&self, hook: &Hook<'_>, tasks: &Tasks, ring: &Map) -> Result<Asm, Unknown> {
        let mut asm = hook.begin();
        let end = asm.label();
        let each = |asm: &mut Asm, does, next| self.touch(hook, tasks, ring, asm, does, next);
        descriptors::returned(hook, tasks, &mut asm, &[Kind::Accept, Kind::Connect], each, end)?;
        asm.end(end);
        Ok(asm)
    }

    /// Something was done to the descriptor in R9.
    fn touch(
        &self,
        hook: &Hook<'_>,
        tasks: &Tasks,
        ring: &Map,
        asm: &mut Asm,
        does: Does,
        next: Label,
    ) -> Result<(), Unknown> {
        let kernel = hook.kernel;
        let (sock, other) = (Reg::R8, Reg::R9);
        descriptors::file(hook, asm, sock, other, next)?;
        asm.mov(other, sock);
        chase(asm, other, kernel.offset("file", "f_inode")?, Size::B8);
        let mode = kernel.member("inode", &["i_mode"])?;
        chase(asm, other, mode.offset as i32, Size::B2);
        asm.alu(Alu::And, other, libc::S_IFMT as i32);
        asm.jump_if(other, If::Different, libc::S_IFSOCK as i32, next);
        chase(asm, sock, kernel.offset("file", "private_data")?, Size::B8);
        asm.jump_if(sock, If::Equal, 0, next);
        chase(asm, sock, kernel.offset("socket", "sk")?, Size::B8);
        asm.jump_if(sock, If::Equal, 0, next);
        asm.store(Size::B8, Reg::R10, SOCK, sock);
        let (known, kept) = (asm.label(), asm.label());
        let new = asm.label();
        asm.lookup(&self.connections, SOCK, new);
        if does == Does::Open {
            // The socket of a connection that has ended may connect again.
            asm.load(Size::B8, Reg::R1, Reg::R0, connection::CLOSED_NS);
            asm.jump_if(Reg::R1, If::Equal, 0, known);
            asm.mov(Reg::R7, Reg::R0);
            self.tell(tasks, ring, asm);
        } else {
            asm.jump(known);
        }
        asm.place(new);
        self.describe(hook, tasks, asm, (sock, other), next)?;
        asm.add_new(&self.connections, SOCK, VALUE);
        asm.jump_if(Reg::R0, If::Equal, 0, kept);
        asm.jump_if(Reg::R0, If::Equal, -libc::EEXIST, kept);
        tasks.lose(asm, Lost::Keys);
        asm.jump(next);
        asm.place(kept);
        asm.lookup(&self.connections, SOCK, next);
        asm.place(known);
        let (times, bytes) = match does {
            Does::Open => return Ok(()),
            Does::Read => (connection::RECEIVES, connection::RECEIVED_BYTES),
            Does::Write => (connection::SENDS, connection::SENT_BYTES),
        };
        asm.mov(Reg::R1, 1);
        asm.atomic_add(Reg::R0, times, Reg::R1);
        asm.load(Size::B8, Reg::R1, Reg::R10, MOVED);
        asm.atomic_add(Reg::R0, bytes, Reg::R1);
        Ok(())
    }

    /// Puts together the record of the connection in `sock`; what is none of TCP, or has no other end, goes
    /// to `next`.
    fn describe(
        &self,
        hook: &Hook<'_>,
        tasks: &Tasks,
        asm: &mut Asm,
        (sock, other): (Reg, Reg),
        next: Label,
    ) -> Result<(), Unknown> {
        let kernel = hook.kernel;
        let protocol = kernel.member("sock", &["sk_protocol"])?;
        let (size, shift) = match protocol.bytes.and_then(Size::of) {
            Some(size) => (size, 0),
            // Before Linux 5.6 it was the second byte of a word of bits.
            None => (Size::B2, 8),
        };
        asm.mov(other, sock);
        chase(asm, other, protocol.offset as i32, size);
        asm.alu(Alu::ShiftRight, other, shift);
        asm.jump_if(other, If::Different, libc::IPPROTO_TCP, next);
        asm.zero(VALUE, connection::BYTES);
        asm.mov(other, sock);
        chase(asm, other, kernel.offset("sock_common", "skc_family")?, Size::B2);
        asm.store(Size::B4, Reg::R10, VALUE + connection::FAMILY, other);
        let (v6, told) = (asm.label(), asm.label());
        asm.jump_if(other, If::Equal, libc::AF_INET6, v6);
        asm.jump_if(other, If::Different, libc::AF_INET, next);
        let addresses = [
            (connection::LOCAL, "skc_rcv_saddr", "skc_v6_rcv_saddr"),
            (connection::REMOTE, "skc_daddr", "skc_v6_daddr"),
        ];
        let copy = |asm: &mut Asm, to: i16, name, bytes| -> Result<(), Unknown> {
            asm.address(Reg::R1, Reg::R10, (VALUE + to).into());
            asm.mov(Reg::R2, bytes);
            asm.mov(Reg::R3, sock);
            asm.add(Reg::R3, kernel.offset("sock_common", name)?);
            asm.call(Helper::ReadKernel);
            Ok(())
        };
        for (to, name, _) in addresses {
            copy(asm, to, name, 4)?;
        }
        asm.jump(told);
        asm.place(v6);
        for (to, _, name) in addresses {
            // A kernel without IPv6 has no such sockets.
            if kernel.offset("sock_common", name).is_ok() {
                copy(asm, to, name, 16)?;
            }
        }
        asm.place(told);
        // skc_num is given back when the connection ends.
        let ports = [
            (connection::LOCAL_PORT, kernel.offset("inet_sock", "inet_sport")?),
            (connection::REMOTE_PORT, kernel.offset("sock_common", "skc_dport")?),
        ];
        for (to, at) in ports {
            asm.mov(other, sock);
            chase(asm, other, at, Size::B2);
            asm.store(Size::B4, Reg::R10, VALUE + to, other);
        }
        // Whoever gives a connection up by connect(2) has none: there is no port at its other end.
        asm.jump_if(other, If::Equal, 0, next);
        tasks.who(asm);
        asm.load(Size::B4, Reg::R1, Reg::R10, WHO);
        asm.store(Size::B4, Reg::R10, VALUE + connection::WHO, Reg::R1);
        asm.call(Helper::Now);
        asm.store(Size::B8, Reg::R10, VALUE + connection::FIRST_NS, Reg::R0);
        // A connection may be refused or reset before anybody has its socket.
        let lives = asm.label();
        asm.mov(other, sock);
        chase(asm, other, kernel.offset("sock_common", "skc_state")?, Size::B1);
        asm.jump_if(other, If::Different, TCP_CLOSE, lives);
        ends(hook, asm, (sock, other), (Reg::R10, VALUE))?;
        asm.place(lives);
        Ok(())
    }

    /// A connection that is known ends.
    fn on_state(&self, hook: &Hook<'_>) -> Result<Asm, Unknown> {
        let mut asm = hook.begin();
        let end = asm.label();
        hook.value(&mut asm, Reg::R8, &NEW_STATE)?;
        asm.jump_if(Reg::R8, If::Different, TCP_CLOSE, end);
        hook.value(&mut asm, Reg::R8, &SOCKET)?;
        asm.store(Size::B8, Reg::R10, SOCK, Reg::R8);
        asm.lookup(&self.connections, SOCK, end);
        asm.mov(Reg::R7, Reg::R0);
        ends(hook, &mut asm, (Reg::R8, Reg::R9), (Reg::R7, 0))?;
        asm.end(end);
        Ok(asm)
    }

    /// Nothing comes of a connection that is known any more, and its address is free for another.
    fn on_destroyed(&self, hook: &Hook<'_>, tasks: &Tasks, ring: &Map) -> Result<Asm, Unknown> {
        let mut asm = hook.begin();
        let end = asm.label();
        hook.value(&mut asm, Reg::R8, &SOCKET)?;
        asm.store(Size::B8, Reg::R10, SOCK, Reg::R8);
        asm.lookup(&self.connections, SOCK, end);
        asm.mov(Reg::R7, Reg::R0);
        // It may have ended while it was described.
        let ended = asm.label();
        asm.load(Size::B8, Reg::R1, Reg::R7, connection::CLOSED_NS);
        asm.jump_if(Reg::R1, If::Different, 0, ended);
        ends(hook, &mut asm, (Reg::R8, Reg::R9), (Reg::R7, 0))?;
        asm.place(ended);
        self.tell(tasks, ring, &mut asm);
        asm.end(end);
        Ok(asm)
    }

    /// Tells of the connection whose record is in R7 and whose address is at [`SOCK`], and forgets it.
    /// Changes R9.
    fn tell(&self, tasks: &Tasks, ring: &Map, asm: &mut Asm) {
        let (full, done) = (asm.label(), asm.label());
        reserve(asm, ring, connection::BYTES.into(), full);
        asm.mov(Reg::R9, Reg::R0);
        for at in (0..connection::BYTES).step_by(8) {
            asm.load(Size::B8, Reg::R1, Reg::R7, at);
            asm.store(Size::B8, Reg::R9, at, Reg::R1);
        }
        submit(asm, Reg::R9);
        asm.jump(done);
        asm.place(full);
        tasks.lose(asm, Lost::Records);
        asm.place(done);
        asm.map(Reg::R1, &self.connections);
        asm.address(Reg::R2, Reg::R10, SOCK.into());
        asm.call(Helper::MapDelete);
    }

    /// Adds the connections that still are there.
    pub(super) fn left(&self, rows: &mut Largest<Row>) -> Result<(), Errno> {
        for (_, value) in self.connections.entries()? {
            row(&value).into_iter().for_each(|row| rows.push(row));
        }
        Ok(())
    }
}

impl Moved for Row {
    fn first_ns(&self) -> u64 {
        self.first_ns
    }

    fn bytes(&self) -> [u64; 2] {
        [self.received_bytes, self.sent_bytes]
    }

    fn subnet(&self) -> Option<String> {
        Some(subnet(self.remote.0))
    }
}

/// Puts when the connection in `sock` ends, which is now, and what is known from then on into its record.
fn ends(
    hook: &Hook<'_>,
    asm: &mut Asm,
    (sock, other): (Reg, Reg),
    (record, at): (Reg, i16),
) -> Result<(), Unknown> {
    let last = [(connection::RETRANSMITTED, "total_retrans"), (connection::ROUND_TRIP, "srtt_us")];
    for (to, name) in last {
        asm.mov(other, sock);
        chase(asm, other, hook.kernel.offset("tcp_sock", name)?, Size::B4);
        asm.store(Size::B4, record, at + to, other);
    }
    asm.call(Helper::Now);
    asm.store(Size::B8, record, at + connection::CLOSED_NS, Reg::R0);
    Ok(())
}

/// A connection out of its record, be it of the map or of the ring.
pub(super) fn row(record: &[u8]) -> Option<Row> {
    if record.len() < connection::BYTES as usize {
        return None;
    }
    let at = |at: i16| wide(record, at as usize);
    let word = |at: i16| number(record, at as usize);
    let ended = at(connection::CLOSED_NS) > 0;
    // As it is sent.
    let port = |at: i16| u16::from_be(word(at) as u16);
    let v6 = word(connection::FAMILY) as i32 == libc::AF_INET6;
    let address = |at: i16| address(v6, &record[at as usize..]);
    Some(Row {
        local: (address(connection::LOCAL)?, port(connection::LOCAL_PORT)),
        remote: (address(connection::REMOTE)?, port(connection::REMOTE_PORT)),
        who: word(connection::WHO),
        first_ns: at(connection::FIRST_NS),
        closed_ns: ended.then(|| at(connection::CLOSED_NS)),
        sends: at(connection::SENDS),
        sent_bytes: at(connection::SENT_BYTES),
        receives: at(connection::RECEIVES),
        received_bytes: at(connection::RECEIVED_BYTES),
        retransmitted: ended.then(|| word(connection::RETRANSMITTED)),
        // Kept in eighths, of no less than one microsecond; nothing until one is measured.
        round_trip_us: Some(word(connection::ROUND_TRIP) / 8).filter(|us| ended && *us > 0),
    })
}

fn address(v6: bool, bytes: &[u8]) -> Option<IpAddr> {
    if !v6 {
        return Some(Ipv4Addr::from(<[u8; 4]>::try_from(bytes.get(..4)?).ok()?).into());
    }
    let address = Ipv6Addr::from(<[u8; 16]>::try_from(bytes.get(..16)?).ok()?);
    // A socket for both families has the older's addresses mapped.
    Some(address.to_ipv4_mapped().map_or(address.into(), IpAddr::from))
}

/// The network of an address as people split them: /24, and /64 of IPv6.
pub(super) fn subnet(address: IpAddr) -> String {
    match address {
        IpAddr::V4(address) => {
            let [a, b, c, _] = address.octets();
            format!("{a}.{b}.{c}.0/24")
        }
        IpAddr::V6(address) => {
            let network = address.to_bits() >> 64 << 64;
            format!("{}/64", Ipv6Addr::from_bits(network))
        }
    }
}

const _: () = assert!(VALUE >= -512);

#[cfg(test)]
mod tests {
    use super::super::tasks::put;
    use super::*;

    #[test]
    fn subnets_are_24_and_64_bits() {
        let of = |address: &str| subnet(address.parse().expect("an address"));
        assert_eq!(of("192.168.7.9"), "192.168.7.0/24");
        assert_eq!(of("2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::/64");
        assert_eq!(of("::1"), "::/64");
    }

    #[test]
    fn a_round_trip_that_was_never_measured_is_none() {
        let round_trip = |closed_ns: u64, eighths: u32| {
            let mut record = [0; connection::BYTES as usize];
            put(&mut record, connection::CLOSED_NS, &closed_ns.to_ne_bytes());
            put(&mut record, connection::ROUND_TRIP, &eighths.to_ne_bytes());
            row(&record).expect("it is whole").round_trip_us
        };
        assert_eq!(round_trip(5, 0), None);
        assert_eq!(round_trip(5, 80), Some(10));
        assert_eq!(round_trip(0, 80), None, "it has not ended");
    }

    #[test]
    fn a_short_record_is_none() {
        assert_eq!(row(&[0; 20]), None);
    }
}
