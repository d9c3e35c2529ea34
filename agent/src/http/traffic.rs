//! What goes over the ports, counted.

use std::sync::atomic::{AtomicU64, Ordering};

/// Which port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Port {
    /// The control API on loopback.
    Control,
    /// Health and metrics.
    Ops,
    /// The control API over TLS.
    #[cfg(feature = "tls")]
    Tls,
}

/// Why somebody was not answered as asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// Too many connections.
    Connections,
    /// A TLS handshake that failed or took too long.
    #[cfg(feature = "tls")]
    Handshake,
    /// A request that can be understood in two ways.
    Ambiguous,
    /// No token that the API server accepts.
    Unauthenticated,
    /// Not allowed.
    Forbidden,
    /// A credential that asks too fast.
    Rate,
    /// More tokens than the API server is asked about.
    Strangers,
    /// Too much is open or in work.
    Busy,
}

/// Counters and gauges, shared by all ports.
#[derive(Debug, Default)]
pub(crate) struct Traffic {
    connections: [AtomicU64; 3],
    streams: AtomicU64,
    refused: [AtomicU64; 8],
    #[cfg(feature = "tls")]
    pub(crate) certificate: Certificate,
}

/// How the TLS certificate fares.
#[cfg(feature = "tls")]
#[derive(Debug, Default)]
pub(crate) struct Certificate {
    /// Certificates taken into use, the first one included.
    pub(crate) loaded: AtomicU64,
    /// Changed files that could not be used.
    pub(crate) failed: AtomicU64,
    /// 1 while what the files hold cannot be used and an older certificate is shown.
    pub(crate) stale: AtomicU64,
}

impl Traffic {
    /// Every port, with its name in metrics.
    pub(super) const PORTS: &[(Port, &str)] = &[
        (Port::Control, "control"),
        (Port::Ops, "ops"),
        #[cfg(feature = "tls")]
        (Port::Tls, "tls"),
    ];
    /// Every reason, with its name in metrics.
    pub(super) const REASONS: &[(Refused, &str)] = &[
        (Refused::Connections, "connections"),
        #[cfg(feature = "tls")]
        (Refused::Handshake, "handshake"),
        (Refused::Ambiguous, "ambiguous"),
        (Refused::Unauthenticated, "unauthenticated"),
        (Refused::Forbidden, "forbidden"),
        (Refused::Rate, "rate"),
        (Refused::Strangers, "strangers"),
        (Refused::Busy, "busy"),
    ];

    pub(crate) fn refuse(&self, why: Refused) {
        self.refused[why as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn refused(&self, why: Refused) -> u64 {
        self.refused[why as usize].load(Ordering::Relaxed)
    }

    pub(crate) fn set_connections(&self, port: Port, open: usize) {
        self.connections[port as usize].store(open as u64, Ordering::Relaxed);
    }

    pub(super) fn connections(&self, port: Port) -> u64 {
        self.connections[port as usize].load(Ordering::Relaxed)
    }

    pub(super) fn stream_opened(&self) {
        self.streams.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn stream_closed(&self) {
        self.streams.fetch_sub(1, Ordering::Relaxed);
    }

    pub(super) fn streams(&self) -> u64 {
        self.streams.load(Ordering::Relaxed)
    }
}
