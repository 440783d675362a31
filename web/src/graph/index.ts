import type { Mount } from '../context';
import { GraphView } from './view';

export const mount: Mount = (container, context) => new GraphView(container, context);
