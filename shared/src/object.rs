//! Requests are objects with names: serde's structs would also be read from arrays, field by field in their order here, so
//! that `[["a"]]` would begin a rotation.

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};

/// Something that is read from an object, and from nothing else.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Object<T>(pub T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        read(deserializer).map(Self)
    }
}

/// For a field whose type is a struct.
pub(crate) fn read<'de, T: Deserialize<'de>, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    struct Named<T>(PhantomData<T>);
    impl<'de, T: Deserialize<'de>> Visitor<'de> for Named<T> {
        type Value = T;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }

        fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
            T::deserialize(MapAccessDeserializer::new(map))
        }
    }
    deserializer.deserialize_map(Named(PhantomData))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CancelRequest, PlanRequest, RotationRequest};

    fn refused<T: serde::de::DeserializeOwned + fmt::Debug>(text: &str) -> String {
        serde_json::from_str::<Object<T>>(text).unwrap_err().to_string()
    }

    #[test]
    fn an_array_is_no_request_at_any_depth() {
        for text in ["[]", "[true]"] {
            let told = refused::<CancelRequest>(text);
            assert!(told.starts_with("invalid type: sequence, expected an object at line 1"), "{told}");
        }
        refused::<PlanRequest>(r#"[["a"]]"#);
        refused::<PlanRequest>(r#"{"nodes":["a"],"options":[]}"#);
        refused::<RotationRequest>(r#"[["a"],null,{},"me"]"#);
        refused::<RotationRequest>(r#"{"nodes":["a"],"options":["per-pod"]}"#);
    }

    #[test]
    fn what_is_wrong_in_an_object_is_told_as_before() {
        let text = r#"{"uncordon":true,"surprise":1}"#;
        let plain = serde_json::from_str::<CancelRequest>(text).unwrap_err().to_string();
        assert_eq!(refused::<CancelRequest>(text), plain);
        assert_eq!(
            refused::<CancelRequest>(r#"{"uncordon":true,"uncordon":true}"#).split(" at ").next(),
            Some("duplicate field `uncordon`")
        );
        assert_eq!(serde_json::from_str(r#"{"uncordon":true}"#).ok(), Some(Object(CancelRequest { uncordon: true })));
    }
}
