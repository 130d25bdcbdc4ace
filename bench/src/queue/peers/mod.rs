//! The peers' clients: each caller has a connection of its own, on loopback.

mod beanstalkd;
mod postgresql;
mod redis;

pub(crate) use beanstalkd::Beanstalkd;
pub(crate) use postgresql::Postgresql;
pub(crate) use redis::Redis;
