//! The wire format of protobuf: the fields of one message, one after the other.
//!
//! Nothing is copied and nothing is looked at that nobody asked for: a field that a reader does not know is passed over,
//! its content unread. A message within a message is a slice of it, so that no length can reach beyond its frame. Kubernetes'
//! messages hold no repeated numbers, so that packed fields do not occur among those that are read.

/// Why bytes are no message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProtobufError {
    /// It ends within a field.
    #[error("it ends within a field")]
    Truncated,
    /// A number of more than 64 bits.
    #[error("a number of more than 64 bits")]
    Overlong,
    /// A tag that no field can have.
    #[error("a field with the impossible tag {0}")]
    Tag(u64),
    /// A known field that is encoded in another way than it should be.
    #[error("field {0} is encoded in another way than expected")]
    Encoding(u32),
    /// A text that is none.
    #[error("field {0} is not UTF-8")]
    Text(u32),
    /// Groups within groups without end.
    #[error("too many nested groups")]
    Depth,
    /// Not the four bytes that every object begins with.
    #[error("it does not begin with `k8s` and a zero byte")]
    Magic,
    /// A field whose value means nothing.
    #[error("{0}")]
    Value(Box<str>),
}

/// How deep obsolete groups, which Kubernetes never writes, may be nested to be passed over.
const MOST_GROUPS: u32 = 32;
/// The largest number of a field.
const LARGEST_NUMBER: u64 = (1 << 29) - 1;

/// The fields of a message that have not been read.
#[derive(Clone, Copy, Debug)]
pub(in crate::cache) struct Fields<'a> {
    rest: &'a [u8],
}

/// One field.
#[derive(Clone, Copy, Debug)]
pub(in crate::cache) struct Field<'a> {
    /// Its number.
    pub(in crate::cache) number: u32,
    kind: u8,
    /// What [`NUMBER`] holds.
    value: u64,
    /// What [`BYTES`] holds.
    bytes: &'a [u8],
}

/// A number of variable length.
const NUMBER: u8 = 0;
/// Bytes with their length before them: texts and messages.
const BYTES: u8 = 2;

impl<'a> Fields<'a> {
    pub(in crate::cache) fn of(message: &'a [u8]) -> Self {
        Self { rest: message }
    }

    /// The next field; `None` at the end of the message.
    // Always inlined: handed over in memory, a field costs as much again as reading it.
    #[inline(always)]
    pub(in crate::cache) fn next(&mut self) -> Result<Option<Field<'a>>, ProtobufError> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let (number, kind) = self.tag()?;
        let mut field = Field { number, kind, value: 0, bytes: &[] };
        match kind {
            NUMBER => field.value = self.number()?,
            BYTES => {
                let length = self.number()?;
                field.bytes = self.take(length)?;
            }
            _ => self.pass_over(number, kind)?,
        }
        Ok(Some(field))
    }

    /// What is left of a message whose end is cut off, where that is within a field of bytes: as much of it as there is.
    pub(in crate::cache) fn cut_off(mut self) -> Option<Field<'a>> {
        match self.tag() {
            Ok((number, BYTES)) if self.number().is_ok() => {
                Some(Field { number, kind: BYTES, value: 0, bytes: self.rest })
            }
            _ => None,
        }
    }

    #[inline(always)]
    fn tag(&mut self) -> Result<(u32, u8), ProtobufError> {
        let tag = self.number()?;
        let number = tag >> 3;
        match u32::try_from(number) {
            Ok(small) if (1..=LARGEST_NUMBER).contains(&number) => Ok((small, (tag & 7) as u8)),
            _ => Err(ProtobufError::Tag(tag)),
        }
    }

    #[inline(always)]
    fn number(&mut self) -> Result<u64, ProtobufError> {
        if let [byte @ 0..0x80, rest @ ..] = self.rest {
            self.rest = rest;
            return Ok(u64::from(*byte));
        }
        self.long_number()
    }

    #[inline(never)]
    fn long_number(&mut self) -> Result<u64, ProtobufError> {
        let mut number = 0_u64;
        for (at, byte) in self.rest.iter().enumerate() {
            let bits = u64::from(byte & 0x7f);
            if at == 9 && bits > 1 || at > 9 {
                return Err(ProtobufError::Overlong);
            }
            number |= bits << (7 * at);
            if *byte < 0x80 {
                self.rest = &self.rest[at + 1..];
                return Ok(number);
            }
        }
        Err(ProtobufError::Truncated)
    }

    #[inline(always)]
    fn take(&mut self, length: u64) -> Result<&'a [u8], ProtobufError> {
        let length = usize::try_from(length).map_err(|_| ProtobufError::Truncated)?;
        let (taken, rest) = self.rest.split_at_checked(length).ok_or(ProtobufError::Truncated)?;
        self.rest = rest;
        Ok(taken)
    }

    /// Passes over a field of fixed width, or a group with all that is in it.
    #[cold]
    fn pass_over(&mut self, number: u32, kind: u8) -> Result<(), ProtobufError> {
        let mut open = [0_u32; MOST_GROUPS as usize];
        let mut depth = 0;
        let (mut number, mut kind) = (number, kind);
        loop {
            match kind {
                0 => drop(self.number()?),
                1 => drop(self.take(8)?),
                2 => {
                    let length = self.number()?;
                    self.take(length)?;
                }
                3 => {
                    *open.get_mut(depth).ok_or(ProtobufError::Depth)? = number;
                    depth += 1;
                }
                4 if depth > 0 && open[depth - 1] == number => depth -= 1,
                5 => drop(self.take(4)?),
                _ => return Err(ProtobufError::Tag(u64::from(number) << 3 | u64::from(kind))),
            }
            if depth == 0 {
                return Ok(());
            }
            (number, kind) = self.tag()?;
        }
    }
}

impl<'a> Field<'a> {
    /// A message, or bytes that mean something to others.
    #[inline]
    pub(in crate::cache) fn bytes(&self) -> Result<&'a [u8], ProtobufError> {
        if self.kind == BYTES { Ok(self.bytes) } else { Err(ProtobufError::Encoding(self.number)) }
    }

    /// The fields of a message.
    #[inline]
    pub(in crate::cache) fn message(&self) -> Result<Fields<'a>, ProtobufError> {
        self.bytes().map(Fields::of)
    }

    /// A text.
    #[inline]
    pub(in crate::cache) fn text(&self) -> Result<&'a str, ProtobufError> {
        std::str::from_utf8(self.bytes()?).map_err(|_| ProtobufError::Text(self.number))
    }

    /// An `int64`.
    #[inline]
    pub(in crate::cache) fn int64(&self) -> Result<i64, ProtobufError> {
        if self.kind == NUMBER { Ok(self.value.cast_signed()) } else { Err(ProtobufError::Encoding(self.number)) }
    }

    /// An `int32`: the lower half of what is written, as every protobuf reader does it; negative ones take ten bytes.
    #[inline]
    pub(in crate::cache) fn int32(&self) -> Result<i32, ProtobufError> {
        self.int64().map(|number| number as i32)
    }

    /// A `bool`.
    #[inline]
    pub(in crate::cache) fn flag(&self) -> Result<bool, ProtobufError> {
        self.int64().map(|number| number != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Seen<'a> = (u32, Option<i64>, Option<&'a [u8]>);

    fn read(bytes: &[u8]) -> Result<Vec<Seen<'_>>, ProtobufError> {
        let mut fields = Fields::of(bytes);
        let mut found = Vec::new();
        while let Some(field) = fields.next()? {
            found.push((field.number, field.int64().ok(), field.bytes().ok()));
        }
        Ok(found)
    }

    #[test]
    fn fields_come_one_after_the_other_and_unknown_kinds_are_passed_over() {
        let bytes = [
            0x08, 0x96, 0x01, // 1: 150
            0x12, 0x02, b'h', b'i', // 2: "hi"
            0x19, 1, 2, 3, 4, 5, 6, 7, 8, // 3: eight bytes
            0x25, 1, 2, 3, 4, // 4: four bytes
            0x2b, 0x08, 0x01, 0x33, 0x34, 0x2c, // 5: a group with a number and a group
            0x80, 0x01, 0x00, // 16: 0
        ];
        let expected = [
            (1, Some(150), None),
            (2, None, Some(&b"hi"[..])),
            (3, None, None),
            (4, None, None),
            (5, None, None),
            (16, Some(0), None),
        ];
        assert_eq!(read(&bytes).unwrap(), expected);
        assert_eq!(read(&[]).unwrap(), []);
    }

    #[test]
    fn a_negative_number_takes_ten_bytes() {
        let bytes = [0x08, 0xf6, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
        let field = Fields::of(&bytes).next().unwrap().unwrap();
        assert_eq!((field.int32(), field.int64(), field.flag()), (Ok(-10), Ok(-10), Ok(true)));
    }

    #[test]
    fn what_is_cut_off_or_oversized_is_refused_and_never_read_beyond() {
        let truncated: [&[u8]; 8] = [
            &[0x08],
            &[0x08, 0x80],
            &[0x80],
            &[0x12],
            &[0x12, 0x02, 0x00],
            &[0x12, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01, 0x00],
            &[0x19, 0, 0, 0],
            &[0x2b, 0x08, 0x01],
        ];
        for bytes in truncated {
            assert_eq!(read(bytes), Err(ProtobufError::Truncated), "{bytes:?}");
        }
        let overlong = [0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02];
        assert_eq!(read(&overlong), Err(ProtobufError::Overlong));
        assert_eq!(read(&[[0xff; 9].as_slice(), &[0x81, 0x00]].concat()), Err(ProtobufError::Overlong));
    }

    #[test]
    fn impossible_tags_are_refused() {
        let cases: [&[u8]; 6] =
            [&[0x00], &[0x0e], &[0x0f], &[0x0c], &[0x0b, 0x14], &[0xff, 0xff, 0xff, 0xff, 0xff, 0x01]];
        for bytes in cases {
            assert!(matches!(read(bytes), Err(ProtobufError::Tag(_))), "{bytes:?}: {:?}", read(bytes));
        }
        assert_eq!(read(&[0x0b; 40]), Err(ProtobufError::Depth));
    }

    #[test]
    fn a_field_encoded_in_another_way_and_a_text_that_is_none_are_refused() {
        let number = Fields::of(&[0x08, 0x01]).next().unwrap().unwrap();
        assert_eq!(number.text(), Err(ProtobufError::Encoding(1)));
        let text = Fields::of(&[0x12, 0x01, 0xff]).next().unwrap().unwrap();
        assert_eq!((text.text(), text.int64()), (Err(ProtobufError::Text(2)), Err(ProtobufError::Encoding(2))));
    }
}
