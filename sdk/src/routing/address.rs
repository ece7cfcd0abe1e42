//! The addresses by which gray release and registrations know this process.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, ToSocketAddrs, UdpSocket};

/// Own addresses: `stated` (the value of `ZMS_IP`: addresses separated by commas or blanks), else the one from which
/// the first reachable server of `connect` is reached, else the loopback address.
///
/// Blocking: resolves host names.
pub(crate) fn own_addresses(stated: Option<&str>, connect: &str) -> Vec<IpAddr> {
    let stated: Vec<IpAddr> = stated.into_iter().flat_map(split).filter_map(parse).collect();
    if !stated.is_empty() {
        return stated;
    }
    let source = servers(connect).find_map(source_address);
    vec![source.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST))]
}

/// `h1:2181,h2:2181/chroot`, with or without a scheme in front.
fn servers(connect: &str) -> impl Iterator<Item = &str> {
    let hosts = connect.split_once("://").map_or(connect, |(_, rest)| rest);
    let hosts = hosts.split_once('/').map_or(hosts, |(hosts, _)| hosts);
    hosts.split(',').map(str::trim).filter(|host| !host.is_empty())
}

/// Connecting a datagram socket sends nothing: the system only chooses the route, and with it the source address.
fn source_address(server: &str) -> Option<IpAddr> {
    let target = match server.parse::<IpAddr>() {
        Ok(address) => SocketAddr::new(address, ZOOKEEPER_PORT),
        Err(_) => resolve(server)?,
    };
    let any: SocketAddr = if target.is_ipv4() { ([0; 4], 0).into() } else { ([0; 16], 0).into() };
    let socket = UdpSocket::bind(any).ok()?;
    socket.connect(target).ok()?;
    Some(socket.local_addr().ok()?.ip()).filter(|address| !address.is_unspecified())
}

fn resolve(server: &str) -> Option<SocketAddr> {
    let with_port = server.to_socket_addrs().ok().and_then(|mut found| found.next());
    with_port.or_else(|| (server, ZOOKEEPER_PORT).to_socket_addrs().ok()?.next())
}

fn split(list: &str) -> impl Iterator<Item = &str> {
    list.split(|c: char| c == ',' || c.is_whitespace()).filter(|address| !address.is_empty())
}

fn parse(address: &str) -> Option<IpAddr> {
    let parsed = address.parse().ok();
    if parsed.is_none() {
        tracing::warn!(address, "ZMS_IP holds something that is not an IP address; it is left out");
    }
    parsed
}

const ZOOKEEPER_PORT: u16 = 2181;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stated_addresses_win() {
        let stated = own_addresses(Some("10.1.1.1, 10.1.1.10 nonsense"), "127.0.0.1:2181");
        assert_eq!(stated, ["10.1.1.1".parse::<IpAddr>().unwrap(), "10.1.1.10".parse().unwrap()]);
    }

    #[test]
    fn the_address_towards_the_registry_is_found() {
        let local = [IpAddr::V4(Ipv4Addr::LOCALHOST)];
        for connect in ["127.0.0.1:2181/prod", "zk://127.0.0.1", ",127.0.0.1:1,10.0.0.1:2"] {
            assert_eq!(own_addresses(None, connect), local, "{connect}");
        }
    }

    #[test]
    fn a_connect_string_without_a_usable_server_still_gives_an_address() {
        assert_eq!(own_addresses(Some(" , "), ""), [IpAddr::V4(Ipv4Addr::LOCALHOST)]);
    }
}
