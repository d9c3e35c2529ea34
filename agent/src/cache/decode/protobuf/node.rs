//! `core/v1.Node` and `policy/v1.PodDisruptionBudget`.

use super::fields::{Field, Fields, ProtobufError};
use super::meta::{amount, condition, int_or_string, meta, selector};
use crate::cache::decode::node::{self as node_wire, NodeInfo, TaintWire};
use crate::cache::decode::pdb as pdb_wire;

/// Reads a node into its wire struct.
pub(in crate::cache::decode) fn node<'a>(
    message: &'a [u8],
    wire: &mut node_wire::Wire<'a>,
) -> Result<(), ProtobufError> {
    let mut fields = Fields::of(message);
    while let Some(field) = fields.next()? {
        match field.number {
            1 => meta(&field, &mut wire.metadata)?,
            2 => {
                let mut fields = field.message()?;
                while let Some(field) = fields.next()? {
                    match field.number {
                        3 => wire.spec.provider_id = field.wire()?,
                        4 => wire.spec.unschedulable = field.flag()?,
                        5 => wire.spec.taints.push(taint(&field)?),
                        7 => wire.spec.pod_cidrs.push(field.wire()?),
                        _ => {}
                    }
                }
            }
            3 => {
                let mut fields = field.message()?;
                while let Some(field) = fields.next()? {
                    match field.number {
                        2 => amount(&field, &mut wire.status.allocatable)?,
                        4 => wire.status.conditions.push(condition(&field)?),
                        7 => node_info(&field, &mut wire.status.node_info)?,
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }
    Ok(())
}

fn node_info<'a>(field: &Field<'a>, wire: &mut NodeInfo<'a>) -> Result<(), ProtobufError> {
    let mut fields = field.message()?;
    while let Some(field) = fields.next()? {
        if field.number == 3 {
            wire.boot_id = field.wire()?;
        }
    }
    Ok(())
}

fn taint<'a>(field: &Field<'a>) -> Result<TaintWire<'a>, ProtobufError> {
    let mut taint = TaintWire::default();
    let mut fields = field.message()?;
    while let Some(field) = fields.next()? {
        match field.number {
            1 => taint.key = field.wire()?,
            2 => taint.value = field.wire()?,
            3 => taint.effect = field.wire()?,
            _ => {}
        }
    }
    Ok(taint)
}

/// Reads a disruption budget into its wire struct.
pub(in crate::cache::decode) fn pdb<'a>(message: &'a [u8], wire: &mut pdb_wire::Wire<'a>) -> Result<(), ProtobufError> {
    let mut fields = Fields::of(message);
    while let Some(field) = fields.next()? {
        match field.number {
            1 => meta(&field, &mut wire.metadata)?,
            2 => {
                let mut fields = field.message()?;
                while let Some(field) = fields.next()? {
                    match field.number {
                        1 => wire.spec.min_available = Some(int_or_string(&field)?),
                        2 => selector(&field, &mut wire.spec.selector)?,
                        3 => wire.spec.max_unavailable = Some(int_or_string(&field)?),
                        4 => wire.spec.unhealthy_pod_eviction_policy = field.wire()?,
                        _ => {}
                    }
                }
            }
            3 => {
                let mut fields = field.message()?;
                while let Some(field) = fields.next()? {
                    match field.number {
                        1 => wire.status.observed_generation = field.int64()?,
                        3 => wire.status.disruptions_allowed = field.int32()?,
                        4 => wire.status.current_healthy = field.int32()?,
                        5 => wire.status.desired_healthy = field.int32()?,
                        6 => wire.status.expected_pods = field.int32()?,
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }
    Ok(())
}
