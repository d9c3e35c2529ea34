//! `core/v1.Pod`.

use super::fields::{Field, Fields, ProtobufError};
use super::meta::{amount, condition, expression, meta, pair, selector, time};
use crate::cache::decode::pod::{
    Affinity, ClaimRef, ContainerStatus, ContainerWire, EmptyDir, PodAffinity, PodTermWire, PortWire, Requirements,
    Spec, SpreadWire, Status, TolerationWire, VolumeWire, Wire,
};
use crate::cache::decode::terms::{NodeSelectorWire, NodeTermWire};
use crate::cache::decode::text::{Amounts, Items, Present};

/// Reads a Pod into its wire struct.
pub(in crate::cache::decode) fn pod<'a>(message: &'a [u8], wire: &mut Wire<'a>) -> Result<(), ProtobufError> {
    let mut fields = Fields::of(message);
    while let Some(field) = fields.next()? {
        match field.number {
            1 => meta(&field, &mut wire.metadata)?,
            2 => spec(&field, &mut wire.spec)?,
            3 => status(&field, &mut wire.status)?,
            _ => {}
        }
    }
    Ok(())
}

fn spec<'a>(field: &Field<'a>, spec: &mut Spec<'a>) -> Result<(), ProtobufError> {
    let mut fields = field.message()?;
    while let Some(field) = fields.next()? {
        match field.number {
            1 => spec.volumes.take(volume(&field)?),
            2 => {
                spec.containers.push(ContainerWire::default());
                container(&field, spec.containers.last_mut().expect("just pushed"))?;
            }
            7 => pair(&field, &mut spec.node_selector)?,
            10 => spec.node_name = field.wire()?,
            11 => spec.host_network = field.flag()?,
            18 => affinity(&field, &mut spec.affinity)?,
            19 => spec.scheduler_name = field.wire()?,
            20 => {
                spec.init_containers.push(ContainerWire::default());
                container(&field, spec.init_containers.last_mut().expect("just pushed"))?;
            }
            22 => spec.tolerations.take(toleration(&field)?),
            25 => spec.priority = field.int32()?,
            29 => spec.runtime_class_name = field.wire()?,
            31 => spec.preemption_policy = field.wire()?,
            32 => amount(&field, &mut spec.overhead)?,
            33 => spec.topology_spread_constraints.push(spread(&field)?),
            38 => spec.scheduling_gates.push(present(&field)?),
            39 => spec.resource_claims.push(present(&field)?),
            40 => requirements(&field, &mut spec.resources)?,
            // `workloadRef` of 1.35, which 1.36 replaced by `schedulingGroup`.
            42 => spec.workload_ref = Some(present(&field)?),
            43 => spec.scheduling_group = Some(present(&field)?),
            _ => {}
        }
    }
    Ok(())
}

fn present(field: &Field<'_>) -> Result<Present, ProtobufError> {
    field.bytes().map(|_| Present {})
}

fn container<'a>(field: &Field<'a>, container: &mut ContainerWire<'a>) -> Result<(), ProtobufError> {
    let mut fields = field.message()?;
    while let Some(field) = fields.next()? {
        match field.number {
            1 => container.name = field.wire()?,
            6 => container.ports.push(port(&field)?),
            8 => requirements(&field, &mut container.resources)?,
            24 => container.restart_policy = field.wire()?,
            _ => {}
        }
    }
    Ok(())
}

fn port<'a>(field: &Field<'a>) -> Result<PortWire<'a>, ProtobufError> {
    let number = |field: &Field<'_>| {
        let number = field.int32()?;
        u16::try_from(number).map_err(|_| ProtobufError::Value(format!("{number} is no port").into()))
    };
    let mut port = PortWire::default();
    let mut fields = field.message()?;
    while let Some(field) = fields.next()? {
        match field.number {
            2 => port.host_port = number(&field)?,
            3 => port.container_port = number(&field)?,
            4 => port.protocol = field.wire()?,
            5 => port.host_ip = field.wire()?,
            _ => {}
        }
    }
    Ok(port)
}

fn requirements<'a>(field: &Field<'a>, requirements: &mut Option<Requirements<'a>>) -> Result<(), ProtobufError> {
    let requirements = requirements.get_or_insert_default();
    let mut fields = field.message()?;
    while let Some(field) = fields.next()? {
        if field.number == 2 {
            amount(&field, requirements.requests.get_or_insert_default())?;
        }
    }
    Ok(())
}

fn volume<'a>(field: &Field<'a>) -> Result<VolumeWire<'a>, ProtobufError> {
    let mut volume = VolumeWire::default();
    let mut fields = field.message()?;
    while let Some(field) = fields.next()? {
        match field.number {
            1 => volume.name = field.wire()?,
            2 => source(&field, &mut volume)?,
            _ => {}
        }
    }
    Ok(volume)
}

fn source<'a>(field: &Field<'a>, volume: &mut VolumeWire<'a>) -> Result<(), ProtobufError> {
    let mut fields = field.message()?;
    while let Some(field) = fields.next()? {
        match field.number {
            2 => {
                let dir: &mut EmptyDir<'a> = volume.empty_dir.get_or_insert_default();
                let mut fields = field.message()?;
                while let Some(field) = fields.next()? {
                    if field.number == 1 {
                        dir.medium = field.wire()?;
                    }
                }
            }
            10 => {
                let claim: &mut ClaimRef<'a> = volume.persistent_volume_claim.get_or_insert_default();
                let mut fields = field.message()?;
                while let Some(field) = fields.next()? {
                    if field.number == 1 {
                        claim.claim_name = field.wire()?;
                    }
                }
            }
            29 => volume.ephemeral = Some(present(&field)?),
            _ => {}
        }
    }
    Ok(())
}

fn affinity<'a>(field: &Field<'a>, affinity: &mut Affinity<'a>) -> Result<(), ProtobufError> {
    let mut fields = field.message()?;
    while let Some(field) = fields.next()? {
        match field.number {
            1 => {
                let mut fields = field.message()?;
                while let Some(field) = fields.next()? {
                    if field.number == 1 {
                        node_selector(&field, affinity.node_affinity.required.get_or_insert_default())?;
                    }
                }
            }
            2 => pod_affinity(&field, &mut affinity.pod_affinity)?,
            3 => pod_affinity(&field, &mut affinity.pod_anti_affinity)?,
            _ => {}
        }
    }
    Ok(())
}

fn node_selector<'a>(field: &Field<'a>, selector: &mut NodeSelectorWire<'a>) -> Result<(), ProtobufError> {
    let mut fields = field.message()?;
    while let Some(field) = fields.next()? {
        if field.number == 1 {
            let mut term = NodeTermWire::default();
            let mut fields = field.message()?;
            while let Some(field) = fields.next()? {
                match field.number {
                    1 => term.match_expressions.push(expression(&field)?),
                    2 => term.match_fields.push(expression(&field)?),
                    _ => {}
                }
            }
            selector.node_selector_terms.push(term);
        }
    }
    Ok(())
}

fn pod_affinity<'a>(field: &Field<'a>, affinity: &mut PodAffinity<'a>) -> Result<(), ProtobufError> {
    let mut fields = field.message()?;
    while let Some(field) = fields.next()? {
        if field.number == 1 {
            let mut term = PodTermWire::default();
            let mut fields = field.message()?;
            while let Some(field) = fields.next()? {
                match field.number {
                    1 => selector(&field, &mut term.label_selector)?,
                    2 => term.namespaces.push(field.wire()?),
                    3 => term.topology_key = field.wire()?,
                    4 => selector(&field, &mut term.namespace_selector)?,
                    _ => {}
                }
            }
            affinity.required.take(term);
        }
    }
    Ok(())
}

fn toleration<'a>(field: &Field<'a>) -> Result<TolerationWire<'a>, ProtobufError> {
    let mut toleration = TolerationWire::default();
    let mut fields = field.message()?;
    while let Some(field) = fields.next()? {
        match field.number {
            1 => toleration.key = field.wire()?,
            2 => toleration.operator = field.wire()?,
            3 => toleration.value = field.wire()?,
            4 => toleration.effect = field.wire()?,
            5 => toleration.toleration_seconds = Some(field.int64()?),
            _ => {}
        }
    }
    Ok(toleration)
}

fn spread<'a>(field: &Field<'a>) -> Result<SpreadWire<'a>, ProtobufError> {
    let mut spread = SpreadWire::default();
    let mut fields = field.message()?;
    while let Some(field) = fields.next()? {
        match field.number {
            1 => spread.max_skew = field.int32()?,
            2 => spread.topology_key = field.wire()?,
            3 => spread.when_unsatisfiable = field.wire()?,
            4 => selector(&field, &mut spread.label_selector)?,
            5 => spread.min_domains = Some(field.int32()?),
            6 => spread.node_affinity_policy = field.wire()?,
            7 => spread.node_taints_policy = field.wire()?,
            8 => spread.match_label_keys.push(field.wire()?),
            _ => {}
        }
    }
    Ok(spread)
}

fn status<'a>(field: &Field<'a>, status: &mut Status<'a>) -> Result<(), ProtobufError> {
    let mut fields = field.message()?;
    while let Some(field) = fields.next()? {
        match field.number {
            1 => status.phase = field.wire()?,
            2 => status.conditions.take(condition(&field)?),
            7 => status.start_time = time(&field)?,
            8 => container_status(&field, status.container_statuses.begin())?,
            10 => container_status(&field, status.init_container_statuses.begin())?,
            11 => status.nominated_node_name = field.wire()?,
            14 => status.resize = field.wire()?,
            19 => amount(&field, status.allocated_resources.get_or_insert_with(Amounts::default))?,
            20 => requirements(&field, &mut status.resources)?,
            _ => {}
        }
    }
    Ok(())
}

fn container_status<'a>(field: &Field<'a>, status: &mut ContainerStatus<'a>) -> Result<(), ProtobufError> {
    let mut fields = field.message()?;
    while let Some(field) = fields.next()? {
        match field.number {
            1 => status.name = field.wire()?,
            10 => amount(&field, status.allocated_resources.get_or_insert_with(Amounts::default))?,
            11 => requirements(&field, &mut status.resources)?,
            _ => {}
        }
    }
    Ok(())
}
