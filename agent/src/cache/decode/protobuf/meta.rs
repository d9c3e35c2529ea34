//! `meta/v1` and other messages that objects of several kinds hold.

use std::borrow::Cow;

use jiff::Timestamp;

use super::fields::{Field, Fields, ProtobufError};
use crate::cache::decode::identity::{Glance, INITIAL_EVENTS_END};
use crate::cache::decode::meta::{Condition, IntOrString, Meta, OwnerWire};
use crate::cache::decode::terms::{ExpressionWire, SelectorWire, operator};
use crate::cache::decode::text::{Amounts, Annotations, Items, Pairs, Text};

impl<'a> Field<'a> {
    pub(super) fn wire(&self) -> Result<Text<'a>, ProtobufError> {
        self.text().map(|text| Text(Cow::Borrowed(text)))
    }

    /// One entry of a map, as yet unread.
    #[inline]
    fn entry(&self) -> Result<(Option<Field<'a>>, Option<Field<'a>>), ProtobufError> {
        let (mut key, mut value) = (None, None);
        let mut fields = self.message()?;
        while let Some(field) = fields.next()? {
            match field.number {
                1 => key = Some(field),
                2 => value = Some(field),
                _ => {}
            }
        }
        Ok((key, value))
    }
}

/// A text that may be missing.
fn text(field: Option<Field<'_>>) -> Result<&str, ProtobufError> {
    field.map_or(Ok(""), |field| field.text())
}

/// `metav1.ObjectMeta`.
pub(super) fn meta<'a>(field: &Field<'a>, meta: &mut Meta<'a>) -> Result<(), ProtobufError> {
    let mut fields = field.message()?;
    while let Some(field) = fields.next()? {
        match field.number {
            1 => meta.name = field.wire()?,
            3 => meta.namespace = field.wire()?,
            5 => meta.uid = field.wire()?,
            6 => meta.resource_version = field.wire()?,
            7 => meta.generation = field.int64()?,
            8 => meta.creation_timestamp = time(&field)?,
            9 => meta.deletion_timestamp = time(&field)?,
            11 => pair(&field, &mut meta.labels)?,
            12 => annotation(&field, &mut meta.annotations)?,
            13 => meta.owner_references.take(owner(&field)?),
            _ => {}
        }
    }
    Ok(())
}

/// A map entry of two texts.
pub(super) fn pair<'a>(field: &Field<'a>, pairs: &mut Pairs<'a>) -> Result<(), ProtobufError> {
    let (key, value) = field.entry()?;
    pairs.push(Cow::Borrowed(text(key)?), Cow::Borrowed(text(value)?));
    Ok(())
}

fn annotation<'a>(field: &Field<'a>, annotations: &mut Annotations<'a>) -> Result<(), ProtobufError> {
    let (key, value) = field.entry()?;
    if let Some(key) = key
        && let Some(key) = Annotations::kept(key.bytes()?)
    {
        annotations.set(key, Cow::Borrowed(text(value)?));
    }
    Ok(())
}

/// A map entry of a name and a quantity.
pub(super) fn amount<'a>(field: &Field<'a>, amounts: &mut Amounts<'a>) -> Result<(), ProtobufError> {
    let (name, value) = field.entry()?;
    let name = text(name)?;
    let mut written = "";
    if let Some(value) = value {
        let mut fields = value.message()?;
        while let Some(field) = fields.next()? {
            if field.number == 1 {
                written = field.text()?;
            }
        }
    }
    let quantity = written.parse().map_err(|error| ProtobufError::Value(format!("{error}").into()))?;
    amounts.set(Cow::Borrowed(name), quantity).map_err(|why| ProtobufError::Value(why.into()))
}

/// `metav1.Time`. Whole seconds, as in JSON; the zero time, which JSON writes as null, is none.
pub(super) fn time(field: &Field<'_>) -> Result<Option<Timestamp>, ProtobufError> {
    let mut seconds = 0;
    let mut fields = field.message()?;
    while let Some(field) = fields.next()? {
        if field.number == 1 {
            seconds = field.int64()?;
        }
    }
    if seconds == 0 {
        return Ok(None);
    }
    let time = Timestamp::from_second(seconds);
    time.map(Some).map_err(|_| ProtobufError::Value(format!("{seconds} is no time").into()))
}

fn owner<'a>(field: &Field<'a>) -> Result<OwnerWire<'a>, ProtobufError> {
    let mut owner = OwnerWire::default();
    let mut fields = field.message()?;
    while let Some(field) = fields.next()? {
        match field.number {
            1 => owner.kind = field.wire()?,
            3 => owner.name = field.wire()?,
            4 => owner.uid = field.wire()?,
            5 => owner.api_version = field.wire()?,
            6 => owner.controller = field.flag()?,
            _ => {}
        }
    }
    Ok(owner)
}

/// A condition of a Pod or a node.
pub(super) fn condition<'a>(field: &Field<'a>) -> Result<Condition<'a>, ProtobufError> {
    let mut condition = Condition::default();
    let (mut reason, mut message) = (None, None);
    let mut fields = field.message()?;
    while let Some(field) = fields.next()? {
        match field.number {
            1 => condition.kind = field.wire()?,
            2 => condition.status = field.wire()?,
            5 => reason = Some(field),
            6 => message = Some(field),
            _ => {}
        }
    }
    // Of the others nobody reads them, and they are long.
    if condition.kind.starts_with("Pod") {
        condition.reason = Text(Cow::Borrowed(text(reason)?));
        condition.message = Text(Cow::Borrowed(text(message)?));
    }
    Ok(condition)
}

/// `metav1.LabelSelector`.
pub(super) fn selector<'a>(field: &Field<'a>, selector: &mut Option<SelectorWire<'a>>) -> Result<(), ProtobufError> {
    let selector = selector.get_or_insert_default();
    let mut fields = field.message()?;
    while let Some(field) = fields.next()? {
        match field.number {
            1 => pair(&field, &mut selector.match_labels)?,
            2 => selector.match_expressions.push(expression(&field)?),
            _ => {}
        }
    }
    Ok(())
}

/// A requirement of a label selector or a node selector: their numbers are the same.
pub(super) fn expression<'a>(field: &Field<'a>) -> Result<ExpressionWire<'a>, ProtobufError> {
    let (mut key, mut name, mut values) = (Text::default(), "", Vec::new());
    let mut fields = field.message()?;
    while let Some(field) = fields.next()? {
        match field.number {
            1 => key = field.wire()?,
            2 => name = field.text()?,
            3 => values.push(field.wire()?),
            _ => {}
        }
    }
    let operator = operator(name).ok_or_else(|| ProtobufError::Value(format!("unknown operator {name:?}").into()))?;
    Ok(ExpressionWire { key, operator, values })
}

/// `intstr.IntOrString`.
pub(super) fn int_or_string(field: &Field<'_>) -> Result<IntOrString, ProtobufError> {
    let (mut kind, mut number, mut written) = (0, 0, "");
    let mut fields = field.message()?;
    while let Some(field) = fields.next()? {
        match field.number {
            1 => kind = field.int64()?,
            2 => number = field.int32()?,
            3 => written = field.text()?,
            _ => {}
        }
    }
    match kind {
        0 => Ok(IntOrString(number.to_string().into())),
        1 => Ok(IntOrString(written.into())),
        _ => Err(ProtobufError::Value(format!("{kind} is neither a number nor a text").into())),
    }
}

/// Reads what identifies an object of any kind as far as it goes; whether it went to the end.
pub(in crate::cache::decode) fn glance(message: &[u8]) -> (Glance, Result<(), ProtobufError>) {
    let mut glance = Glance::default();
    let read = glance_into(message, &mut glance);
    (glance, read)
}

fn glance_into(message: &[u8], glance: &mut Glance) -> Result<(), ProtobufError> {
    let mut fields = Fields::of(message);
    let mut whole = Ok(());
    loop {
        let here = fields;
        match fields.next() {
            // Metadata that cannot be read does not hide the node that is told behind them.
            Ok(Some(field)) => whole = whole.and(glance_at(&field, glance)),
            Ok(None) => return whole,
            Err(error) => {
                if let Some(field) = here.cut_off() {
                    // That it is cut off is said anyway.
                    let _ = glance_at(&field, glance);
                }
                return Err(error);
            }
        }
    }
}

/// The metadata, or the spec.
fn glance_at(field: &Field<'_>, glance: &mut Glance) -> Result<(), ProtobufError> {
    let present = |field: &Field<'_>| field.text().map(|text| (!text.is_empty()).then(|| Box::from(text)));
    if field.number == 1 {
        let mut fields = field.message()?;
        while let Some(field) = fields.next()? {
            match field.number {
                1 => glance.identity.name = field.text()?.into(),
                3 => glance.identity.namespace = present(&field)?,
                5 => glance.identity.uid = field.text()?.into(),
                6 => glance.identity.revision = present(&field)?,
                12 => {
                    let (key, value) = field.entry()?;
                    // Not as a text: a key that is none must not hide what comes after it.
                    if key.map_or(Ok(&[][..]), |key| key.bytes())? == INITIAL_EVENTS_END.as_bytes() {
                        glance.initial_end = text(value)? == "true";
                    }
                }
                _ => {}
            }
        }
    } else if field.number == 2 {
        // Only in the spec of a Pod is field 10 a text; nobody asks for the node of another kind.
        let mut fields = field.message()?;
        while let Some(field) = fields.next()? {
            if field.number == 10 {
                glance.node = present(&field).ok().flatten();
            }
        }
    }
    Ok(())
}
